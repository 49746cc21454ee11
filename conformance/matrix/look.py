"""The style of the matrix page, and its script: the search, and the details of a chosen cell."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #fff; --soft: #57606a; --line: #d0d7de; --box: #f6f8fa;
  --pass: #dafbe1; --part: #fff8c5; --fail: #ffd8d3; --link: #0550ae }
@media (prefers-color-scheme: dark) { :root { --fg: #e6edf3; --bg: #0d1117; --soft: #9aa4af; --line: #30363d;
  --box: #161b22; --pass: #12351f; --part: #463a0b; --fail: #5c1d1d; --link: #79c0ff } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg); margin: 2rem auto;
  max-width: 92rem; padding: 0 1rem }
h1 { margin: 0 0 .5rem } h2 { margin-top: 2.5rem } a { color: var(--link) }
header p { max-width: 60rem } small, caption, .level { color: var(--soft) }
caption { text-align: left; padding: .3rem 0 } abbr { text-decoration: none }
.wide { overflow-x: auto; margin: .5rem 0 1.5rem }
table { border-collapse: collapse } th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left }
thead th { background: var(--box); position: sticky; top: 0; font-size: 13px; vertical-align: bottom; max-width: 9rem }
.grid td { text-align: center; white-space: nowrap; padding: .25rem }
.grid tbody th { font-weight: normal; min-width: 9rem }
.area { scroll-margin-top: 4.5rem }
.area tbody th { min-width: 22rem; max-width: 34rem }
.pass { background: var(--pass) } .part { background: var(--part) } .fail { background: var(--fail) }
.none { color: var(--soft) } .mark { display: inline-block; min-width: 1.6rem; text-align: center; border-radius: 3px }
.level { font-size: 12px; border: 1px solid var(--line); border-radius: 3px; padding: 0 .3rem; margin-left: .5rem }
td button { font: inherit; color: inherit; background: none; border: 0; padding: .1rem .5rem; cursor: pointer;
  width: 100% }
td button:hover, summary:hover { text-decoration: underline } :focus-visible { outline: 2px solid var(--link) }
summary { cursor: pointer; padding: .2rem 0 } .area > summary { font-size: 1.05rem }
code { font-size: 13px; overflow-wrap: anywhere }
dl dt { float: left; clear: left; min-width: 8rem } dl dd { margin-left: 8.5rem }
form#filters { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; align-items: center; background: var(--box);
  padding: .7rem 1rem; border: 1px solid var(--line); border-radius: 6px; position: sticky; top: 0; z-index: 2 }
input, select { font: inherit } input[type=search] { width: 18rem }
dialog { color: var(--fg); background: var(--bg); border: 1px solid var(--line); border-radius: 8px; max-width: 76rem }
dialog::backdrop { background: #0007 } dialog code { background: var(--box); padding: .1rem .3rem }
dialog pre { overflow: auto; max-height: 60vh; background: var(--box); padding: .6rem; font-size: 12px }
dialog pre:empty { display: none } [hidden] { display: none }
"""

SCRIPT: Final = """
const data = JSON.parse(document.getElementById('data').textContent)
const filters = document.getElementById('filters'), found = document.getElementById('found')
const rows = [...document.querySelectorAll('tr[data-case]')]
rows.forEach(row => { row.words = row.firstElementChild.textContent.toLowerCase() })
function apply() {
  const text = filters.text.value.trim().toLowerCase(), level = filters.level.value, verdict = filters.verdict.value
  const filtered = text || level || verdict || filters.differ.checked
  let count = 0
  for (const row of rows) {
    row.hidden = !(row.words.includes(text) && (!level || row.dataset.level === level)
      && (!verdict || row.dataset.verdicts.split(' ').includes(verdict))
      && (!filters.differ.checked || 'differ' in row.dataset))
    count += !row.hidden
  }
  for (const area of document.querySelectorAll('.area')) {
    const left = area.querySelectorAll('tr[data-case]:not([hidden])').length
    area.hidden = !left
    if (filtered) area.open = left > 0
  }
  found.textContent = filtered ? `${count} of ${rows.length} cases` : ''
}
filters.addEventListener('input', apply)
filters.addEventListener('submit', event => event.preventDefault())
document.addEventListener('click', event => {
  const link = event.target.closest('a[href^="#area-"]')
  if (link) { const area = document.querySelector(link.getAttribute('href')); area.hidden = false; area.open = true }
  const button = event.target.closest('td button')
  if (button) tell(button)
})
function tell(button) {
  const row = button.closest('tr')
  let name, title, cell, command
  if ('run' in button.dataset) {
    const run = data.servers[button.dataset.run], id = row.dataset.case
    cell = run.cases[id] || {}
    name = `${id} on ${run.description}`
    title = row.querySelector('small').textContent
    command = `kafka-shim conformance --target ${run.target} --case ${id} --evidence evidence`
  } else {
    const run = data.clients[button.dataset.clients], id = button.dataset.scenario, client = row.dataset.client
    cell = run.clients[client][id] || {}
    name = `${id} with ${client} on ${run.target}`
    title = run.scenarios[id].title
    command = `kafka-shim conformance --target ${run.target} --client ${client} --case ${id} --evidence evidence`
  }
  const facts = Object.entries(cell.counts || {}).map(([verdict, count]) =>
    [verdict, (cell.versions || {})[verdict] ? `version ${cell.versions[verdict]}` : `${count} times`])
  if (cell.verdict) facts.push(['verdict', cell.verdict])
  if (!facts.length) facts.push(['verdict', 'pass'])
  if (cell.cause) facts.push(['cause', cell.cause])
  if (cell.why) facts.push(['because', cell.why])
  if (cell.known) facts.push(['known', cell.known])
  document.getElementById('detail-name').textContent = name
  document.getElementById('detail-title').textContent = title
  document.getElementById('detail-command').textContent = command
  document.getElementById('detail-evidence').textContent = cell.evidence || ''
  document.getElementById('detail-facts').replaceChildren(...facts.flatMap(([term, text]) => {
    const dt = document.createElement('dt'), dd = document.createElement('dd')
    dt.textContent = term; dd.textContent = text
    return [dt, dd]
  }))
  document.getElementById('detail').showModal()
}
function follow() {
  const area = location.hash.startsWith('#area-') && document.querySelector(location.hash)
  if (area) area.open = true
}
addEventListener('hashchange', follow)
follow()
"""
