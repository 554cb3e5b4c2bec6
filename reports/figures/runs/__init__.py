"""Figures of several phases, drives or runs beside one another."""
