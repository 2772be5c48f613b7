// The comparison of two recordings.

const worse = new Set(['slower', 'slower tail', 'more work', 'more time', 'fewer lanes', 'only in B', 'more faults', 'more allocated', 'more memory']), better = new Set(['faster', 'faster tail', 'less work', 'less time', 'more lanes', 'only in A', 'fewer faults', 'less allocated', 'less memory']);
const verdictClass = v => worse.has(v) ? 'slower' : better.has(v) ? 'faster' : '';
const MEASURES = ['median', 'mean', 'p95'];
const MOST = 1000; // where intervals end
const tested = c => c && c.noise_percent > 0;
const real = c => c.verdict === 'slower' || c.verdict === 'faster';
const interval = c => c.percent_low === undefined ? 'too few for an interval' : signed(c.percent_low, v => v.toFixed(1)) + ' to ' + (c.percent_high === MOST ? 'more' : signed(c.percent_high, v => v.toFixed(1)));
const changeText = c => signed(c.percent, v => v.toFixed(1)) + ' % (' + interval(c) + ')';

function diffColor(d) {
  const changed = verdictClass(d.verdict);
  if (!changed) return {fill: css('--same'), pale: true};
  const rel = Math.min(1, Math.abs(d.after_ns - d.before_ns) / Math.max(d.before_ns, d.after_ns, 1) * 2);
  return {fill: 'color-mix(in oklab, ' + css(changed === 'slower' ? '--slow' : '--fast') + ' ' + Math.round(45 + 55 * rel) + '%, ' + css('--same') + ')'};
}
const diffTip = d => [['before', time(d.before_ns)], ['after', time(d.after_ns)], ['difference', signed(d.after_ns - d.before_ns, time) + (d.before_ns ? '  ' + signed(100 * (d.after_ns - d.before_ns) / d.before_ns, pct) : '')],
  ['work', signed(d.work_ns || 0, time)], ['efficiency', signed(d.efficiency_ns || 0, time)], ['wait', signed(d.wait_ns || 0, time)],
  ...MEASURES.filter(m => tested(d[m])).map(m => [m + ' for the same work', changeText(d[m]) + (real(d[m]) ? ', real' : '')]), ['verdict', d.verdict]];

// pair draws the time before and after as two bars, on one scale for a table.
function pair(d, most) {
  const bar = (ns, name, color) => el('span', {title: name + ' ' + time(ns), style: 'width:' + Math.max(0.5, 100 * ns / (most || 1)) + '%;background:' + color});
  return el('span', {class: 'pair'}, bar(d.before_ns, 'before', 'var(--wait)'), bar(d.after_ns, 'after', verdictClass(d.verdict) === 'slower' ? 'var(--slow)' : verdictClass(d.verdict) === 'faster' ? 'var(--fast)' : 'var(--c0)'));
}
function diffTable(rows, first) {
  const most = Math.max(...rows.map(d => Math.max(d.before_ns, d.after_ns)));
  const change = m => ({head: m + ' %', get: d => tested(d[m]) ? d[m].percent : -1e9, show: d => tested(d[m]) ? el('span', {class: real(d[m]) ? verdictClass(d[m].verdict) : ''}, changeText(d[m]).replace(' %', '')) : ''});
  const cols = [{head: first, left: true, get: d => d.name}, {head: 'before ms', get: d => d.before_ns, show: d => ms(d.before_ns)}, {head: 'after ms', get: d => d.after_ns, show: d => ms(d.after_ns)},
    {head: 'before, after', get: d => Math.max(d.before_ns, d.after_ns), show: d => pair(d, most)},
    {head: 'difference', get: d => Math.abs(d.after_ns - d.before_ns), show: d => signed((d.after_ns - d.before_ns) / 1e6, v => v.toFixed(3))},
    ...MEASURES.map(change), {head: 'verdict', left: true, get: d => d.verdict, show: d => el('span', {class: verdictClass(d.verdict)}, d.verdict)}];
  return sortable(cols, () => rows, 4).table;
}

const shifted = (by, whole, rows) => whole ? ': ' + rows + ' did not move alike, changes are whole, what the machine did included' : by.some(v => v) ? ': changes are beyond what all ' + rows + ' have in common (' + MEASURES.map((m, i) => m + ' ' + signed(by[i], pct)).filter((_, i) => by[i]).join(', ') + ')' : '';
const o = section('overview', 'Overview', data.a + ' against ' + data.b);
o.append(cards(data.cards), el('p', {}, data.summary));
for (const w of [...data.not_compared || [], ...data.warnings || []]) o.append(el('p', {class: 'warn'}, w));
data.plans.forEach((p, i) => {
  const s = section('plan' + i, p.name + ' ' + p.phase, p.runs[0] + ' and ' + p.runs[1] + ' runs. Width is the longer of both sides, red is slower, blue faster, grey no more than noise.');
  const host = el('div');
  s.append(host, el('div', {class: 'legend'}, el('span', {style: '--k:var(--slow)'}, 'slower or more work'), el('span', {style: '--k:var(--fast)'}, 'faster or less work'), el('span', {style: '--k:var(--same)'}, 'no more than two recordings of one build differ by')));
  flame(host, data.trees[i], {label: 'Difference flame graph', value: n => n.c && n.c.length ? 0 : Math.max(n.before_ns, n.after_ns), sumOnly: true, path: pathOf, tip: n => diffTip(n), color: n => n.c && n.c.length ? {fill: css('--line'), pale: true} : diffColor(n)});
  s.append(el('p', {class: 'note'}, 'Of a run'), diffTable([p.total, p.common, p.wait], ''), el('p', {class: 'note'}, 'By op' + shifted(p.shift_percent, p.whole_changes, 'ops')), diffTable(p.kinds, 'op'));
  if (p.layers.length > 1) s.append(el('p', {class: 'note'}, 'By layer' + shifted(p.layer_shift_percent, p.whole_layer_changes, 'layers')), diffTable(p.layers, 'layer'));
  s.append(el('p', {class: 'note'}, 'By step'), diffTable(p.steps, 'step'));
  if (p.waits && p.waits.length) s.append(el('p', {class: 'note'}, 'Waits at barriers, all layers together; changes are in per cent of a run'), diffTable(p.waits, 'wait'));
});
if (data.scopes && data.scopes.length) {
  const s = section('scopes', 'Scopes', "The host's work, and what contains runs: the median call, and in rows of their own the mean of all calls. All calls: their change in per cent of the whole recording.");
  const most = Math.max(...data.scopes.map(d => Math.max(d.before_ns, d.after_ns)));
  s.append(sortable([{head: 'scope', left: true, get: d => d.name + (d.of_mean ? ' (mean)' : '')}, {head: 'calls', get: d => d.calls[0], show: d => d.calls.map(v => v.toFixed(0)).join(', ')},
    {head: 'before ms', get: d => d.before_ns, show: d => ms(d.before_ns)}, {head: 'after ms', get: d => d.after_ns, show: d => ms(d.after_ns)}, {head: 'before, after', get: d => Math.max(d.before_ns, d.after_ns), show: d => pair(d, most)},
    {head: 'change %', get: d => d.change.percent, show: d => el('span', {class: verdictClass(d.verdict)}, changeText(d.change).replace(' %', ''))},
    {head: 'all calls %', get: d => Math.abs(d.added_percent), show: d => signed(d.added_percent, v => v.toFixed(2))},
    {head: 'verdict', left: true, get: d => d.verdict, show: d => el('span', {class: verdictClass(d.verdict)}, d.verdict)}], () => data.scopes, 6).table);
}
if (data.uneven && data.uneven.length) {
  const s = section('uneven', 'Uneven', 'How much longer the busiest lane of a call computed than the mean of its lanes, all layers together: per cent of the mean, and time per run. Change: in per cent of a run. Lanes: that share a call, before and after.');
  const otherLanes = d => d.verdict === 'fewer lanes' || d.verdict === 'more lanes';
  const most = Math.max(...data.uneven.map(d => Math.max(d.before_ns, d.after_ns)));
  s.append(sortable([{head: 'plan', left: true, get: d => d.plan}, {head: 'step', left: true, get: d => d.step}, {head: 'lanes', get: d => d.lanes[1], show: d => d.lanes.map(n => n.toFixed(1)).join(', ')}, {head: 'before %', get: d => d.uneven_percent[0], show: d => d.uneven_percent[0].toFixed(1)}, {head: 'after %', get: d => d.uneven_percent[1], show: d => d.uneven_percent[1].toFixed(1)},
    {head: 'before, after', get: d => Math.max(d.before_ns, d.after_ns), show: d => pair(d, most)},
    {head: 'change %', get: d => otherLanes(d) ? 1e9 : Math.abs(d.change.percent), show: d => otherLanes(d) ? '' : el('span', {class: verdictClass(d.verdict)}, changeText(d.change).replace(' %', ''))},
    {head: 'verdict', left: true, get: d => d.verdict, show: d => el('span', {class: verdictClass(d.verdict)}, d.verdict)}], () => data.uneven, 6).table);
}
if (data.ledger && data.ledger.length) {
  const s = section('ledger', 'Ledger', "Lane time per run by column, the geometric mean of recordings. No run: workers before and between their runs (dispatch), and after their last (idle). Change: in per cent of A's whole lane time.");
  const most = Math.max(...data.ledger.map(d => Math.max(d.before_ns, d.after_ns)));
  s.append(sortable([{head: 'of', left: true, get: d => d.of + (d.no_run ? ', no run' : '')}, {head: 'column', left: true, get: d => d.column},
    {head: 'before ms', get: d => d.before_ns, show: d => ms(d.before_ns)}, {head: 'after ms', get: d => d.after_ns, show: d => ms(d.after_ns)}, {head: 'before, after', get: d => Math.max(d.before_ns, d.after_ns), show: d => pair(d, most)},
    {head: 'change %', get: d => Math.abs(d.change.percent), show: d => el('span', {class: verdictClass(d.verdict)}, changeText(d.change).replace(' %', ''))},
    {head: 'verdict', left: true, get: d => d.verdict, show: d => el('span', {class: verdictClass(d.verdict)}, d.verdict)}], () => data.ledger, 5).table);
}
function counts(id, title, note, first, rows, show) {
  if (!rows || !rows.length) return;
  section(id, title, note).append(sortable([{head: first, left: true, get: d => d.kind}, {head: 'before', get: d => d.before, show: d => show(d, d.before)}, {head: 'after', get: d => d.after, show: d => show(d, d.after)},
    {head: 'change %', get: d => d.verdict === 'untested' ? -1 : Math.abs(d.change.percent), show: d => d.verdict === 'untested' ? '' : el('span', {class: verdictClass(d.verdict)}, changeText(d.change).replace(' %', ''))},
    {head: 'verdict', left: true, get: d => d.verdict, show: d => el('span', {class: verdictClass(d.verdict)}, d.verdict)}], () => rows, 3).table);
}
counts('faults', 'Page faults', "Of the process during a recording, the mean of recordings. Change: in per cent of A's. Those from a disk are not judged.", 'served from', data.faults, (d, n) => n.toFixed(0));
counts('goheap', 'Go heap', "What the process allocated during a recording, opening the model included, the mean of recordings. Change: in per cent of A's. Untested: little, or sides with other tokens.", 'allocated', data.go_heap, (d, n) => d.kind === 'bytes' ? (n / 1e6).toFixed(1) + ' MB' : n.toFixed(0));
if (data.memory && data.memory.length) {
  const s = section('memory', 'Memory', data.memory_note);
  s.append(sortable([{head: 'owner', left: true, get: d => d.owner}, {head: 'class', left: true, get: d => d.class}, {head: 'before', get: d => d.before_bytes, show: d => bytes(d.before_bytes)},
    {head: 'after', get: d => d.after_bytes, show: d => bytes(d.after_bytes)}, {head: 'difference', get: d => Math.abs(d.after_bytes - d.before_bytes), show: d => signed(d.after_bytes - d.before_bytes, bytes)},
    {head: 'noise', get: d => d.noise_bytes, show: d => '±' + bytes(d.noise_bytes)}, {head: 'verdict', left: true, get: d => d.verdict, show: d => el('span', {class: verdictClass(d.verdict)}, d.verdict)},
    {head: 'touched before', get: d => d.touched_bytes ? d.touched_bytes[0] : 0, show: d => d.touched_bytes ? bytes(d.touched_bytes[0]) : ''},
    {head: 'touched after', get: d => d.touched_bytes ? d.touched_bytes[1] : 0, show: d => d.touched_bytes ? bytes(d.touched_bytes[1]) : ''}], () => data.memory, 4).table);
}
document.documentElement.dataset.ready = 'yes';
