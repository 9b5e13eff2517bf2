"""Tests of a project: files that give a joint's inputs and say what it is to make of them; no catalog is contacted."""
