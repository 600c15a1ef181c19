"""A plugin of pytest for trials: hypothesis tries the same examples for every mutant, and doesn't look for a smaller one after
a failure, which takes minutes and changes no verdict."""

from hypothesis import Phase, settings

settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("mutants")
