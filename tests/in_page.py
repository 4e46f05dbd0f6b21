"""What a test reads of a page itself, beside what the environment says of it."""

from selfsurf.browser_env.browser.runtime import runtime


def value(env, expression):
    """Evaluate an expression in an environment's active page."""
    return runtime().run(env.unwrapped.core.session.active.page.evaluate(expression))
