"""How reports look, on a screen and on paper: the style sheet that stands in each of them."""

from __future__ import annotations

from typing import Final

from trouper.audit.markup import Markup

STYLE: Final = Markup(
    """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5b6470; --line: #d9dee4; --page: #ffffff; --panel: #f5f7f9;
  --person: #7a3e9d; --model: #0b6477; --ok: #1a7f37; --bad: #b42318; --doubt: #8a5a00; --accent: #274690; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #9aa4b1; --line: #363d46; --page: #15181c;
  --panel: #1e2329; --person: #cf9df0; --model: #6fc7da; --ok: #6fcf87; --bad: #ff8a7d; --doubt: #e3b341;
  --accent: #9db7ff; } }
* { box-sizing: border-box; }
html { background: var(--page); }
body { margin: 0 auto; padding: 2.5rem 2rem 4rem; max-width: 62rem; color: var(--ink); background: var(--page);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: .25rem 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .75rem; padding-bottom: .3rem; border-bottom: 2px solid var(--accent); }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem; }
h1, h2, h3, .kicker, .lead, .call > header, .said > header { break-after: avoid; }
p { margin: .4rem 0; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
code, pre, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .86em; }
code, .mono { overflow-wrap: anywhere; }
pre { margin: .3rem 0; padding: .55rem .75rem; background: var(--panel); border-radius: 5px; line-height: 1.45; }
pre, .text { white-space: pre-wrap; overflow-wrap: anywhere; }
.kicker { font-size: .75rem; letter-spacing: .09em; text-transform: uppercase; color: var(--soft); }
.soft { color: var(--soft); } .small { font-size: .87em; } .nowrap { white-space: nowrap; } .num { text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.person { color: var(--person); } .model { color: var(--model); } .ok { color: var(--ok); } .bad { color: var(--bad); }
.doubt { color: var(--doubt); } .dim { color: var(--soft); }
.badge { display: inline-block; padding: .05rem .5rem; border: 1px solid currentColor; border-radius: 1rem;
  font-size: .78rem; font-weight: 600; white-space: nowrap; vertical-align: .1em; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: .75rem 0; }
dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; overflow-wrap: anywhere; }
.panel { border: 1px solid var(--line); border-left: 4px solid var(--soft); border-radius: 5px; padding: .6rem .9rem;
  margin: .8rem 0; }
.panel.ok { border-left-color: var(--ok); } .panel.bad { border-left-color: var(--bad); }
.panel.doubt { border-left-color: var(--doubt); }
.panel > .kicker { margin-bottom: .2rem; } .panel > .text, .panel > p, .panel > ul { color: var(--ink); }
table { width: 100%; border-collapse: collapse; margin: .6rem 0; font-size: .9rem; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .8rem; vertical-align: bottom; }
th.num { text-align: right; }
th, td { padding: .32rem .7rem .32rem 0; border-bottom: 1px solid var(--line); }
td { vertical-align: top; overflow-wrap: anywhere; } td.num { overflow-wrap: normal; }
td .badge { white-space: normal; }
th:last-child, td:last-child { padding-right: 0; }
thead { display: table-header-group; } tr { break-inside: avoid; }
tr.total td { font-weight: 600; border-top: 2px solid var(--line); }
tr.group td { font-weight: 600; border-bottom: 0; padding-top: .9rem; } tr.group { break-after: avoid; }
table.calls, table.leaves { table-layout: fixed; }
table.calls th:nth-child(1) { width: 5%; } table.calls th:nth-child(2) { width: 29%; }
table.calls th:nth-child(3) { width: 13%; } table.calls th:nth-child(5) { width: 6%; }
table.calls th:nth-child(6) { width: 14%; }
table.deeds th:nth-child(1) { width: 9.5rem; } table.deeds td:nth-child(1) { white-space: normal; }
table.deeds td:nth-child(2) { min-width: 9rem; } table.deeds td:nth-child(4) { width: 9rem; }
table.events td:nth-child(1), table.events td:nth-child(2) { white-space: nowrap; color: var(--soft); }
table.events td:nth-child(3) { min-width: 7rem; max-width: 12rem; }
table.events tr.group td, table.leaves tr.group td { color: var(--ink); }
table.leaves { font-size: .8rem; } table.leaves td { padding-top: .1rem; padding-bottom: .1rem; }
table.leaves th:nth-child(1), table.leaves th:nth-child(2) { width: 10%; }
table.leaves th:nth-child(3) { width: 18%; } table.leaves td:last-child { font-size: .68rem; }
pre.document { font-size: .72rem; }
.said { border-left: 3px solid var(--line); padding: .1rem 0 .1rem 1rem; margin: 1.1rem 0; }
.said.person { border-left-color: var(--person); } .said.model { border-left-color: var(--model); }
.said.bad { border-left-color: var(--bad); } .said > *:not(header) { color: var(--ink); }
.said.dim > *:not(header) { color: var(--soft); }
.said > header { display: flex; flex-wrap: wrap; gap: 0 .9rem; align-items: baseline; font-size: .87rem; }
.call { border: 1px solid var(--line); border-radius: 6px; padding: .6rem .9rem; margin: .7rem 0; color: var(--ink); }
.call > header { display: flex; flex-wrap: wrap; gap: .2rem .7rem; align-items: baseline; }
.call ol { margin: .4rem 0; padding: 0; list-style: none; font-size: .87rem; }
.call ol li { display: grid; grid-template-columns: 6.5rem 1fr; gap: .7rem; }
.call .kicker { margin-top: .5rem; }
img.shown { max-width: 100%; max-height: 24rem; border: 1px solid var(--line); border-radius: 4px; }
nav ol { margin: .3rem 0; padding-left: 1.3rem; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--line); font-size: .85rem;
  color: var(--soft); }
@media screen and (max-width: 44rem) { body { padding: 1.2rem 1rem 2rem; } h1 { font-size: 1.4rem; }
  dl.facts { grid-template-columns: 1fr; gap: 0; } dl.facts dd { margin-bottom: .5rem; }
  .call ol li { grid-template-columns: 1fr; gap: 0; margin-bottom: .4rem; } .call, .panel { padding: .5rem .6rem; }
  .said { padding-left: .6rem; }
  table, tbody, tr, td { display: block; width: auto !important; } thead { display: none; }
  tr { border-bottom: 1px solid var(--line); padding: .45rem 0; } td { border: 0 !important; padding: .05rem 0; }
  td[data-head] { position: relative; padding-left: 7.6rem; text-align: left; min-height: 1.5rem; }
  td[data-head]::before { content: attr(data-head); position: absolute; left: 0; color: var(--soft);
    font: 600 .78rem/1.9 system-ui, sans-serif; }
  table.deeds td:nth-child(2), table.events td:nth-child(3) { min-width: 0; max-width: none; }
  td.nowrap, .nowrap { white-space: normal; } td:empty { display: none; }
  table.leaves td[data-head], table.events td[data-head] { padding-left: 4.8rem; } }
@page { size: A4; margin: 17mm 15mm 19mm;
  @bottom-right { content: counter(page) " / " counter(pages); font: 8.5pt sans-serif; color: #666; }
  @bottom-left { content: "Trouper evidence report"; font: 8.5pt sans-serif; color: #666; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #4a4f55; --line: #c5cad0; --page: #fff;
  --panel: #f4f5f6; --person: #5d2a7c; --model: #084c5a; --ok: #12602a; --bad: #9b1c13; --doubt: #6b4600;
  --accent: #1d3670; }
  body { padding: 0; max-width: none; font-size: 9.5pt; } table { font-size: 8.5pt; } h1 { font-size: 17pt; }
  h2 { font-size: 13pt; } table.leaves { font-size: 7.5pt; } table.leaves td:last-child { font-size: 6.6pt; }
  table.deeds th:nth-child(1) { width: 7.5rem; }
  pre.document { font-size: 7pt; } a { color: inherit; }
  h2 { margin-top: 1.6rem; } section.run + section.run { break-before: page; }
  .panel, .call ol li { break-inside: avoid; }
  pre { background: none; border: 1px solid var(--line); } * { print-color-adjust: exact; } }
"""
)
"""It names no file and no address: a report is complete in itself."""
