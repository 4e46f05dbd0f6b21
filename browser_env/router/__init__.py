"""One router for every browser call: providers in order, retries and fallbacks by policy, each attempt logged."""
