"""Problems and policies in the form that other libraries expect; each module needs the extra it names."""
