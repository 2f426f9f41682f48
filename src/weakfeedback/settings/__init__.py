"""What a setting is: its problems, its policies and their names; and the catalogue of all settings."""
