"""Policies that decide after every stage."""
