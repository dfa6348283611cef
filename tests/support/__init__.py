"""What tests of several rooms share: a provider of language models that does what a test wrote."""
