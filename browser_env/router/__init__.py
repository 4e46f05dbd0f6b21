"""Router of all browser calls: providers in order, retries and fallbacks by policy, every attempt logged."""
