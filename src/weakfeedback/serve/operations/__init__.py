"""What can be asked of the service: functions of a `Service`, by what they are about. `Service` lists them."""
