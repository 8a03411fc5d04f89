"""Sentences on six topics: a set with labels for every text model, also for one without data of its own."""

TOPICS: dict[str, tuple[str, ...]] = {
    "weather": (
        "Heavy rain is expected in the north this afternoon.",
        "The storm brought strong winds and high waves to the coast.",
        "It will be sunny and dry for the rest of the week.",
        "Snow fell on the mountains during the night.",
        "The temperature dropped below zero in the early morning.",
        "Dense fog closed the airport for several hours.",
    ),
    "music": (
        "The orchestra played a symphony in three movements.",
        "Her second album was recorded with a new guitarist.",
        "The choir sang the song without a conductor.",
        "He plays the piano and writes music for films.",
        "The band toured Europe after the single was released.",
        "The opera has its premiere in the new concert hall.",
    ),
    "sport": (
        "The team won the final match by two goals.",
        "She ran the marathon in less than three hours.",
        "The player scored twice in the second half of the game.",
        "He was the first swimmer to win four medals.",
        "The coach left the club at the end of the season.",
        "The champion lost the tennis tournament in the first round.",
    ),
    "food": (
        "Boil the potatoes with salt for twenty minutes.",
        "The soup is made of tomatoes, onions and garlic.",
        "They drank coffee and ate bread with butter.",
        "Bake the cake in the oven until it is brown.",
        "The restaurant serves fresh fish with rice and lemon.",
        "Mix the flour with sugar, milk and two eggs.",
    ),
    "space": (
        "The planet orbits its star in eleven days.",
        "Astronomers observed a distant galaxy with the new telescope.",
        "The spacecraft landed on the far side of the moon.",
        "A comet passed the Earth at a safe distance.",
        "The rocket carried three satellites into orbit.",
        "The light of the star takes four years to reach the Sun.",
    ),
    "politics": (
        "The parliament voted for the new law by a narrow majority.",
        "The president met the prime minister in the capital.",
        "The party lost the election in most regions.",
        "The government announced a reform of the tax system.",
        "The minister resigned after a debate in the senate.",
        "The two countries signed a treaty after long negotiations.",
    ),
}
