"""`headrace bench peers`: what people use today, each in a virtual environment of its own."""
