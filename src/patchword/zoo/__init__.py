"""COME ALONG: trained models by name, their folders and their cards; imported without torch."""
