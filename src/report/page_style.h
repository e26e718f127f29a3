// SPDX-License-Identifier: Apache-2.0
// The page's style and its few lines of script, put inline so that the file stands alone. Colours are variables: the
// reader's system chooses light or dark.
#pragma once

#include <string_view>

namespace litespark::report {

inline constexpr std::string_view kPageStyle = R"css(
:root { --page: #f6f7f9; --card: #ffffff; --ink: #1b1f24; --quiet: #5f6b7a; --line: #e3e6eb;
  --first: #2563c9; --second: #c2571a; --faint: #a9c2ec; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --page: #111418; --card: #1a1e24; --ink: #e6e9ee; --quiet: #98a3b3; --line: #2c323b;
    --first: #74a7ff; --second: #ffa066; --faint: #34507f; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 36px 20px 64px; }
header p { margin: 2px 0 0; color: var(--quiet); }
h1 { font-size: 27px; line-height: 1.25; margin: 0; font-weight: 650; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 40px 0 12px; font-weight: 650; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr)); gap: 12px; margin-top: 24px; }
.card, figure, .panel { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 12px 14px; }
.card span { display: block; color: var(--quiet); font-size: 13px; }
.card b { display: block; font-size: 22px; line-height: 1.3; font-weight: 620; font-variant-numeric: tabular-nums; }
.card b.absent { font-size: 16px; line-height: 1.8; font-weight: 500; color: var(--quiet); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 14px; }
figure { margin: 0; padding: 14px 12px 8px; position: relative; }
figcaption { font-weight: 600; padding: 0 6px; display: flex; justify-content: space-between; gap: 12px; }
.legend { font-weight: 400; font-size: 13px; color: var(--quiet); display: flex; gap: 14px; }
.legend i { display: inline-block; width: 14px; height: 3px; border-radius: 2px; margin-right: 6px;
  vertical-align: 4px; background: var(--first); }
.legend i.second { background: var(--second); }
.legend i.faint { background: var(--faint); }
figure.absent { min-height: 120px; display: flex; flex-direction: column; }
figure.absent p { margin: auto; color: var(--quiet); }
svg.chart { display: block; width: 100%; height: auto; touch-action: pan-y; }
svg text { fill: var(--quiet); font-size: 12px; font-variant-numeric: tabular-nums; }
.grid { stroke: var(--line); fill: none; }
.axis { stroke: var(--quiet); stroke-opacity: .6; fill: none; }
.rule { stroke: var(--quiet); stroke-dasharray: 3 3; visibility: hidden; }
.series path { fill: none; stroke: var(--first); stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.series circle { fill: var(--first); stroke: var(--card); stroke-width: 1.5; }
.series.second path { stroke: var(--second); stroke-dasharray: 2 5; }
.series.second circle { fill: var(--second); }
.series.faint path { stroke: var(--faint); stroke-width: 1.4; }
.tip { position: absolute; display: none; pointer-events: none; z-index: 1; white-space: pre; font-size: 13px;
  line-height: 1.45; padding: 5px 10px; border-radius: 7px; background: var(--ink); color: var(--page); }
.panel { padding: 8px 16px; }
p.absent { color: var(--quiet); margin: 8px 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; white-space: nowrap; font-weight: 600; font-size: 13px; color: var(--quiet); }
td { text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
th, td { padding: 6px 0 6px 18px; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.bars tr:first-child td { border-top: 0; }
.bars td { width: 1%; }
.bars td:nth-child(2) { width: 97%; }
svg.bar { display: block; width: 100%; height: 10px; }
svg.bar rect { fill: var(--first); }
pre { margin: 0; padding: 14px 16px; overflow-x: auto; font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
.sample { padding: 12px 16px; margin-bottom: 12px; white-space: pre-wrap; overflow-wrap: anywhere; }
.sample small { display: block; color: var(--quiet); }
.sample b { font-weight: 620; }
details summary { cursor: pointer; padding: 10px 16px; color: var(--quiet); }
footer { margin-top: 40px; color: var(--quiet); font-size: 13px; }
@media print { .charts { grid-template-columns: 1fr 1fr; } figure, .card { break-inside: avoid; } }
)css";

/// Shows the values nearest to the pointer; reads what line_chart.cpp put into data attributes.
inline constexpr std::string_view kPageScript = R"js(
for (const figure of document.querySelectorAll('figure.chart')) {
  const svg = figure.querySelector('svg'), tip = figure.querySelector('.tip'), rule = figure.querySelector('.rule');
  const frame = Object.fromEntries(['left', 'right', 'low', 'high'].map(name => [name, Number(svg.dataset[name])]));
  const numbers = text => text ? text.split(',').map(Number) : [];
  const series = [...svg.querySelectorAll('.series')].map(group =>
    ({name: group.dataset.name, xs: numbers(group.dataset.xs), ys: numbers(group.dataset.ys)}));
  const nearest = (xs, x) => xs.reduce((best, value, i) => Math.abs(value - x) < Math.abs(xs[best] - x) ? i : best, 0);
  const hide = () => { tip.style.display = 'none'; rule.style.visibility = 'hidden'; };
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const share = ((event.clientX - box.left) * scale - frame.left) / (frame.right - frame.left);
    const pointed = frame.low + share * (frame.high - frame.low);
    const longest = series.reduce((a, b) => b.xs.length > a.xs.length ? b : a);
    const x = longest.xs[nearest(longest.xs, pointed)];
    const lines = [svg.dataset.xname + ' ' + x];
    for (const one of series) {
      const i = nearest(one.xs, x);
      if (one.xs[i] === x) lines.push(one.name + ' ' + Number(one.ys[i].toPrecision(5)));
    }
    const place = frame.left + (x - frame.low) / (frame.high - frame.low) * (frame.right - frame.left);
    rule.setAttribute('transform', 'translate(' + place + ' 0)');
    rule.style.visibility = 'visible';
    tip.textContent = lines.join('\n');
    tip.style.display = 'block';
    const left = svg.offsetLeft === undefined ? box.left - figure.getBoundingClientRect().left : svg.offsetLeft;
    const beside = left + place / scale + 14;
    const fits = beside + tip.offsetWidth < figure.clientWidth;
    tip.style.left = (fits ? beside : beside - tip.offsetWidth - 28) + 'px';
    tip.style.top = '48px';
  });
}
)js";

}  // namespace litespark::report
