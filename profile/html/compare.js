// The comparison of two recordings.

const verdictClass = v => v === 'slower' || v === 'more work' || v === 'only in B' ? 'slower' : v === 'faster' || v === 'less work' || v === 'only in A' ? 'faster' : '';
const noise = d => d.noise_percent ? '±' + d.noise_percent.toFixed(1) : '';
const interval = (d, show) => d.percent_low === undefined ? 'too few for an interval' : signed(d.percent_low, show) + ' to ' + signed(d.percent_high, show);

function diffColor(d) {
  const changed = verdictClass(d.verdict);
  if (!changed) return {fill: css('--same'), pale: true};
  const rel = Math.min(1, Math.abs(d.after_ns - d.before_ns) / Math.max(d.before_ns, d.after_ns, 1) * 2);
  return {fill: 'color-mix(in oklab, ' + css(changed === 'slower' ? '--slow' : '--fast') + ' ' + Math.round(45 + 55 * rel) + '%, ' + css('--same') + ')'};
}
const diffTip = d => [['before', time(d.before_ns)], ['after', time(d.after_ns)], ['difference', signed(d.after_ns - d.before_ns, time) + (d.before_ns ? '  ' + signed(100 * (d.after_ns - d.before_ns) / d.before_ns, pct) : '')],
  ['work', signed(d.work_ns || 0, time)], ['efficiency', signed(d.efficiency_ns || 0, time)], ['wait', signed(d.wait_ns || 0, time)],
  d.noise_percent > 0 && ['for the same work', signed(d.percent, pct) + ' (' + interval(d, pct) + ')'],
  d.noise_percent > 0 && ['one build may differ by', '±' + pct(d.noise_percent)], d.noise_percent > 0 && ['p, Holm', d.p_holm.toPrecision(2)], ['verdict', d.verdict]];

function diffTable(rows, first) {
  const cols = [{head: first, left: true, get: d => d.name}, {head: 'before ms', get: d => d.before_ns, show: d => ms(d.before_ns)}, {head: 'after ms', get: d => d.after_ns, show: d => ms(d.after_ns)},
    {head: 'difference', get: d => Math.abs(d.after_ns - d.before_ns), show: d => signed((d.after_ns - d.before_ns) / 1e6, v => v.toFixed(3))},
    {head: 'work', get: d => d.work_ns, show: d => signed(d.work_ns / 1e6, v => v.toFixed(3))}, {head: 'efficiency', get: d => d.efficiency_ns, show: d => signed(d.efficiency_ns / 1e6, v => v.toFixed(3))},
    {head: 'wait', get: d => d.wait_ns, show: d => signed(d.wait_ns / 1e6, v => v.toFixed(3))}, {head: 'for the same work', get: d => d.noise_percent ? d.percent : -1e9, show: d => d.noise_percent ? signed(d.percent, pct) : ''},
    {head: '95 %', get: d => d.percent_low ?? -1e9, show: d => d.noise_percent ? interval(d, v => v.toFixed(1)) : ''}, {head: 'noise', get: d => d.noise_percent, show: noise},
    {head: 'p (Holm)', get: d => -d.p_holm, show: d => d.noise_percent ? d.p_holm.toPrecision(2) : ''}, {head: 'verdict', left: true, get: d => d.verdict, show: d => el('span', {class: verdictClass(d.verdict)}, d.verdict)}];
  return sortable(cols, () => rows, 3).table;
}

const o = section('overview', 'Overview', data.a + ' against ' + data.b);
o.append(cards(data.cards), el('p', {}, data.summary));
for (const w of data.warnings || []) o.append(el('p', {class: 'warn'}, w));
data.plans.forEach((p, i) => {
  const s = section('plan' + i, p.name + ' ' + p.phase, p.runs[0] + ' and ' + p.runs[1] + ' runs. Width is the longer of both sides, red is slower, blue faster, grey no more than noise.');
  const host = el('div');
  s.append(host, el('div', {class: 'legend'}, el('span', {style: '--k:var(--slow)'}, 'slower or more work'), el('span', {style: '--k:var(--fast)'}, 'faster or less work'), el('span', {style: '--k:var(--same)'}, 'no more than two recordings of one build differ by')));
  flame(host, data.trees[i], {label: 'Difference flame graph', value: n => n.c && n.c.length ? 0 : Math.max(n.before_ns, n.after_ns), sumOnly: true, path: pathOf, tip: n => diffTip(n), color: n => n.c && n.c.length ? {fill: css('--line'), pale: true} : diffColor(n)});
  s.append(el('p', {class: 'note'}, 'Of a run'), diffTable([p.total, p.common, p.wait], ''), el('p', {class: 'note'}, 'By op'), diffTable(p.kinds, 'op'), el('p', {class: 'note'}, 'By step'), diffTable(p.steps, 'step'));
});
document.documentElement.dataset.ready = 'yes';
