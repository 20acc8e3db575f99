"""How the report looks: light and dark, on screens of any width, and on paper."""

STYLE = """\
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1c2024; --faint: #5b6570; --line: #d4d9de; --shade: #f4f6f8; --link: #0b5cad;
  --warn: #fff4d6; --warn-line: #d99a00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181b; --ink: #e4e7ea; --faint: #a2abb4; --line: #3a4149; --shade: #1f2429; --link: #7db7f0;
    --warn: #33290f; --warn-line: #d99a00;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 1120px; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
p, ul { max-width: 46rem; }
a { color: var(--link); }
nav ol { margin: 0; padding-left: 1.4rem; columns: 16rem; max-width: 46rem; }
.warning {
  max-width: none; margin: 0 0 1.25rem; padding: .75rem 1rem; background: var(--warn); font-weight: 600;
  border-left: 4px solid var(--warn-line);
}
.note { color: var(--faint); font-size: .875rem; margin: .4rem 0; }
.scroll { overflow-x: auto; margin: 1rem 0 .75rem; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .3rem .75rem; text-align: right; white-space: nowrap; font-weight: 400; }
thead th { white-space: normal; font-weight: 600; vertical-align: bottom; border-bottom: 2px solid var(--line); }
th[scope="row"], th[scope="rowgroup"], .words { text-align: left; }
tbody + tbody { border-top: 1px solid var(--line); }
tbody tr:hover { background: var(--shade); }
.block th { font-weight: 600; padding-top: .6rem; }
.apart { color: var(--faint); font-style: italic; }
thead span { white-space: nowrap; }
figure {
  width: fit-content; max-width: 100%; margin: 1rem 0; padding: .5rem;
  background: #ffffff; border: 1px solid var(--line); border-radius: 6px;
}
figure img { display: block; max-width: 100%; min-width: 680px; height: auto; }
pre {
  white-space: pre-wrap; background: var(--shade); border: 1px solid var(--line); border-radius: 6px; padding: .75rem;
}
code { font: .875rem/1.5 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
@media (max-width: 640px) {
  th, td { padding: .3rem .5rem; }
  th[scope="row"] {
    position: sticky; left: 0; min-width: 6.5rem; background: var(--paper); white-space: normal;
    border-right: 1px solid var(--line);
  }
}
@media print {
  :root {
    --paper: #ffffff; --ink: #000000; --faint: #444444; --line: #bbbbbb; --shade: #ffffff; --link: #000000;
    --warn: #ffffff;
  }
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; }
  th, td { padding: .15rem .4rem; }
  figure { border: 0; padding: 0; }
  figure img { min-width: 0; }
  figure, tr, h2 { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""
