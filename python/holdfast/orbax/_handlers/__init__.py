"""What handlers of items share: their interface, and items that are trees."""
