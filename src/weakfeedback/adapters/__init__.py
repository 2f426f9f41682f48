"""The problems and policies as other libraries expect them; each module needs the extra it names."""
