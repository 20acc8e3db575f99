"""Front ends: from a signal to frames of features, all with one interface (`outlark.notes.front_ends.base`)."""
