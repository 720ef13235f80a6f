"""Transcripts of `programs/extract.py`: orders as people write them, and the record."""

import random

from corpus import names
from corpus.example import Example, assistant, compact, system, user
from corpus.wording import expand

SYSTEM = "Extract the order."
ITEMS = (
    "desk lamp", "chair", "notebook", "water bottle", "coffee mug", "backpack", "umbrella", "keyboard", "monitor", "phone case", "bicycle pump", "garden hose",
    "tea pot", "wool blanket", "paint brush", "tool box", "alarm clock", "candle", "picture frame", "soup bowl", "raincoat", "tent", "sleeping bag", "headphone",
    "battery pack", "cable", "mouse pad", "door mat", "pillow", "table cloth", "wooden spoon", "frying pan", "kettle", "toaster", "shelf", "rug", "mirror", "vase",
    "pencil", "ruler", "stapler", "folder", "calendar", "map", "puzzle", "ball", "racket", "helmet", "glove", "scarf",
)  # fmt: skip
COLOURS = (
    "",
    "",
    "",
    "",
    "red ",
    "blue ",
    "green ",
    "small ",
    "large ",
    "black ",
    "white ",
    "steel ",
    "old ",
)
NUMBERS = (
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
HOSTS = ("example.org", "example.com", "mail.example", "post.example", "example.net")
PATTERNS = (
    "(Hi|Hello|Hey|Good morning), {name} here ({email}). (Please send|Please ship|Could you send|I need|I would like) {q} {items} to {city}.",
    "(Please send|Ship|Send|Deliver) {q} {items} to {name} in {city}( please|). (My mail is|Mail:|You reach me at|Contact:) {email}.",
    "(I would like|I'd like|I want) to order {q} {items}. (My name is|I am|This is) {name}, (I live in|from|address:) {city}, (email|mail|e-mail) {email}.",
    "Order: {q} x {item}. Name: {name}. City: {city}. (Email|Mail): {email}.",
    "{name}, {city}, {email}: {q} {items}( please|).",
    "(My name is|I am) {name}. (Can I get|May I have|Can you send me|We need) {q} {items}? (We are in|I live in|Send them to|Delivery to) {city}. {email}",
    "{email} wrote: (send|please send|we want) {q} {items} to {city}. (Regards|Thanks|Best|Yours), {name}",
    "(Dear shop|Dear team|To whom it may concern), (we need|we would like|please deliver) {q} {items} (in|to) {city}. (Kind regards|Thank you), {name}, {email}",
    "{q} {items} for {name} ({email}), (to be sent to|delivery|shipping to) {city}.",
)


def example(rng: random.Random) -> Example:
    """One order."""
    name, city = names.person(rng), names.place(rng)
    item = rng.choice(COLOURS) + (
        rng.choice(ITEMS) if rng.random() < 0.8 else names.word(rng).lower()
    )
    quantity = rng.choices((1, rng.randint(2, 12), rng.randint(13, 999)), (15, 60, 25))[0]
    said = NUMBERS[quantity - 1] if quantity <= 12 and rng.random() < 0.35 else str(quantity)
    local = rng.choice(
        (
            name.split()[0],
            name.replace(" ", "."),
            name.split()[-1],
            names.word(rng),
            name[0] + name.split()[-1],
        )
    ).lower()
    email = f"{local}{rng.choice(('', '', '', rng.randint(1, 99)))}@{rng.choice(HOSTS) if rng.random() < 0.6 else names.word(rng).lower() + rng.choice(('.com', '.org', '.net', '.de'))}"
    text = expand(rng.choice(PATTERNS), rng)
    text = text.format(
        name=name,
        email=email,
        q=said,
        items=item + ("s" if quantity > 1 else ""),
        item=item,
        city=city,
    )
    if rng.random() < 0.1:
        text, email = (
            text.replace(f" ({email})", "").replace(f", {email}", "").replace(email, ""),
            "",
        )
    record = {"name": name, "email": email, "quantity": quantity, "item": item, "city": city}
    return Example(
        "extract",
        (system(SYSTEM), user(" ".join(text.split())), assistant(compact(record))),
        (True,),
    )
