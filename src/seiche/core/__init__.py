"""What the whole engine takes from the outside world besides storage: time, chance and identity."""
