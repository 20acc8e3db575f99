"""``python -m outlark`` is the command line."""

from outlark.cli.main import main

if __name__ == "__main__":
    main()
