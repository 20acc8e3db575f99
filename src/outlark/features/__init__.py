"""Front ends: from a signal to frames of features, all with one interface (`outlark.features.base`)."""
