"""Shared by all kernels: availability, self-tests, launches, registration, random numbers."""
