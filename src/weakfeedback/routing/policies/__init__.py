"""The policies of this setting, one file each."""
