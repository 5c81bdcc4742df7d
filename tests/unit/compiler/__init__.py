"""Tests of the policy compiler."""
