// The report of one recording.

// perTime is 0 where nothing was on the clock, as in the other reports.
const perTime = (n, d) => d > 0 ? n / d : 0;

function overview() {
  const s = section('overview', 'Overview', data.created);
  s.append(cards(data.cards));
  const names = ['compute', 'barrier', 'dispatch', 'idle', 'residual'], colors = ['--c0', '--c1', '--c5', '--wait', '--c4'];
  const bars = el('div', {class: 'bars'});
  for (const l of data.ledger) {
    const bar = el('div', {class: 'bar'});
    bar.append(...l.parts.map((ns, i) => el('span', {style: 'width:' + Math.max(0, 100 * perTime(ns, l.lane)) + '%;background:var(' + colors[i] + ')'})));
    bar.addEventListener('mousemove', e => showTip(e, l.name, l.parts.map((v, i) => [names[i], pct(100 * perTime(v, l.lane)) + '  ' + time(v)])));
    bar.addEventListener('mouseleave', hideTip);
    bars.append(el('span', {}, l.name), bar, el('span', {}, pct(100 * perTime(l.parts[0], l.lane)) + ' computing'));
  }
  if (data.ledger.length) {
    s.append(el('p', {class: 'note'}, 'The ledger: wall time × lanes, every part of it stamped; the residual is what the stamps do not explain.'), bars,
      el('div', {class: 'legend'}, names.map((n, i) => el('span', {style: '--k:var(' + colors[i] + ')'}, n))));
  }
  s.append(el('p', {}), facts(data.facts));
  for (const w of data.warnings || []) s.append(el('p', {class: 'warn'}, w));
}

const METRICS = {
  time: {label: 'Time', get: n => n.t, show: time}, lost: {label: 'Lost time', get: n => n.l, show: time},
  bytes: {label: 'Bytes', get: n => n.b, show: v => si(v, 'B')}, flops: {label: 'FLOPs', get: n => n.f, show: v => si(v, 'FLOP')},
};
function nodeTip(n, root) {
  return [['kind', n.k], ['time', time(n.t) + '  ' + pct(100 * n.t / (root.t || 1))],
    (n.r || n.l) && ['lost beyond the roofline', time(n.l)],
    n.f > 0 && ['rate', si(perTime(n.f, n.w) * 1e9, 'FLOP/s')], n.b > 0 && ['memory', si(perTime(n.b, n.w) * 1e9, 'B/s')],
    n.f > 0 && n.b > 0 && ['intensity', (n.f / n.b).toFixed(1) + ' FLOP/B'], n.m > 0 && ['steps run', n.m.toLocaleString('en')]];
}
// The tree table has nodes of its own: pictures keep their own parents.
const VIEWS = [['layers', 'By layer'], ['merged', 'Layers merged'], ['ops', 'By op']];
const treeOf = view => structuredClone(data.trees.find(t => t.view === view).root);
const tree = data.trees.length ? treeOf('layers') : null;
(function link(n, parent) { if (n) { n.parent = parent; (n.c || []).forEach(k => link(k, n)); } })(tree, null);
const countLayers = n => Math.max((n.c || []).filter(k => k.k === 'layer').length, ...(n.c || []).map(countLayers), 0);
function flameSection() {
  if (!tree || !tree.t) return;
  let metric = 'time';
  // Many layers side by side are slivers.
  const first = countLayers(tree) > 12 ? 'merged' : 'layers';
  const found = el('span', {class: 'note', 'aria-live': 'polite'});
  const search = el('input', {type: 'search', placeholder: 'Search (/)', 'aria-label': 'Search the flame graph'});
  const s = section('flame', 'Flame graph', 'Width is the measure, colour the op. Click to zoom, again to go back; arrows and Enter do the same.',
    found, search, group(VIEWS, first, v => f.show(treeOf(v))), group(Object.entries(METRICS).filter(([k]) => k !== 'lost' || data.ceilings.length).map(([k, m]) => [k, m.label]), metric, m => { metric = m; f.draw(); }));
  const host = el('div');
  s.append(host, legend(data.ops));
  const f = flame(host, treeOf(first), {
    label: 'Flame graph', value: n => METRICS[metric].get(n), path: pathOf,
    tip: (n, root) => [[METRICS[metric].label, METRICS[metric].show(METRICS[metric].get(n))], ...nodeTip(n, root)],
    color: n => n.k === 'wait' ? {fill: css('--wait'), pale: true} : n.o ? {fill: opColor(n.o)} : {fill: css('--line'), pale: true},
  });
  search.addEventListener('input', () => {
    const r = f.search(search.value);
    found.textContent = r ? r.count + ' found, ' + pct(r.share) : '';
  });
  search.addEventListener('keydown', e => { if (e.key === 'Escape') { search.value = ''; f.search(''); found.textContent = ''; search.blur(); } });
}

function treeSection() {
  if (!tree || !tree.t) return;
  const body = el('tbody');
  const s = section('tree', 'Tree', 'Model, layer, block, op, kernel. Arrow keys move and open.',
    el('button', {onclick: () => { toggleAll(true); }}, 'Open all'), el('button', {onclick: () => { toggleAll(false); }}, 'Close'));
  const open = new Set([tree]);
  function toggleAll(on) {
    open.clear();
    open.add(tree);
    if (on) (function walk(n) { open.add(n); (n.c || []).forEach(walk); })(tree);
    draw();
  }
  let at = tree;
  function draw(focus) {
    const rows = [];
    (function walk(n, depth) {
      const kids = n.c || [], bar = 100 * n.t / tree.t;
      const tr = el('tr', {tabindex: n === at ? 0 : -1, role: 'row', 'aria-level': depth + 1, 'aria-expanded': kids.length ? open.has(n) : undefined},
        el('td', {class: 'l'}, el('span', {style: 'padding-left:' + depth * 18 + 'px'}),
          el('span', {class: 'twist', onclick: () => { flip(n); }}, kids.length ? (open.has(n) ? '▾' : '▸') : ''), n.n, el('span', {class: 'kind'}, n.k)),
        el('td', {}, n.m ? n.m.toLocaleString('en') : ''), el('td', {}, time(n.t)),
        el('td', {}, pct(bar), el('span', {class: 'meter'}, el('span', {style: 'width:' + bar + '%;--k:' + (n.k === 'wait' ? 'var(--faint)' : n.o ? opColor(n.o) : 'var(--accent)')}))),
        el('td', {}, n.f ? perTime(n.f, n.w).toFixed(1) : ''), el('td', {}, n.b ? perTime(n.b, n.w).toFixed(1) : ''), el('td', {}, n.r || n.l ? time(n.l) : ''));
      tr.node = n;
      rows.push(tr);
      if (open.has(n)) [...kids].sort((a, b) => n.k === 'model' || n.k === 'plan' ? 0 : b.t - a.t).forEach(k => walk(k, depth + 1));
    })(tree, 0);
    body.replaceChildren(...rows);
    if (focus) { const tr = rows.find(r => r.node === at); if (tr) tr.focus(); }
  }
  function flip(n) { open.has(n) ? open.delete(n) : open.add(n); at = n; draw(true); }
  body.addEventListener('keydown', e => {
    const rows = [...body.children], i = rows.findIndex(r => r.node === at), n = at;
    const kids = n.c && n.c.length;
    const to = j => { if (rows[j]) { at = rows[j].node; rows[i].tabIndex = -1; rows[j].tabIndex = 0; rows[j].focus(); } };
    if (e.key === 'ArrowDown') to(i + 1);
    else if (e.key === 'ArrowUp') to(i - 1);
    else if (e.key === 'ArrowRight') kids && !open.has(n) ? flip(n) : to(i + 1);
    else if (e.key === 'ArrowLeft') kids && open.has(n) ? flip(n) : n.parent && to(rows.findIndex(r => r.node === n.parent));
    else if (e.key === 'Enter' && kids) flip(n);
    else return;
    e.preventDefault();
  });
  body.addEventListener('click', e => { const tr = e.target.closest('tr'); if (tr && !e.target.closest('.twist')) { at = tr.node; draw(true); } });
  const heads = ['', 'steps run', 'time', 'of wall time', 'GFLOP/s', 'GB/s', 'lost'];
  s.append(el('div', {class: 'scroll'}, el('table', {class: 'tree', role: 'treegrid', 'aria-label': 'Tree of the model'},
    el('thead', {}, el('tr', {}, heads.map((h, i) => el('th', {class: i ? '' : 'l', scope: 'col'}, h)))), body)));
  // A tree of a few rows says nothing: the largest branches are opened until it does.
  for (let rows = tree.c.length, n = tree; rows < 8 && n.c && n.c.length; rows += (n.c || []).length) {
    n = n.c.reduce((a, b) => a.t > b.t ? a : b);
    open.add(n);
  }
  drawn(draw);
}

// ---- all runs on the wall clock -------------------------------------------
function wallSection() {
  const t = data.timeline, w = t.wall;
  if (!w.runs.length) return;
  let from = w.from, to = w.to, boxes = [], drag = null;
  const s = section('wall', 'Timeline', 'All kept runs, lane by lane, on the wall clock; hatched is time without a run. Wheel or + and − zoom, drag or arrows move, a click shows the run below.',
    el('button', {onclick: () => fit()}, 'Fit'));
  const canvas = el('canvas', {tabindex: 0, role: 'img', 'aria-label': 'Timeline of all runs'});
  const names = [...new Set(w.runs.map(r => r.p))], color = p => css('--c' + names.indexOf(p) % COLORS);
  s.append(canvas, el('div', {class: 'legend'}, names.map(p => el('span', {style: '--k:var(--c' + names.indexOf(p) % COLORS + ')'}, t.plans[p].name)),
    el('span', {style: '--k:var(--wait)'}, 'idle lane'), el('span', {class: 'hatched'}, 'no run, or not kept')));
  const SROW = 18, ROW = 24, TOP = 26, LEFT = 74;
  const fit = () => { const pad = 0.005 * (w.to - w.from); from = w.from - pad; to = w.to + pad; draw(); };
  function draw() {
    const rows = w.rows, W = Math.max(300, s.clientWidth - 42), base = TOP + w.above * SROW + (w.above ? 8 : 0), H = base + rows * ROW + 6, dpr = devicePixelRatio || 1;
    canvas.width = W * dpr; canvas.height = H * dpr; canvas.style.height = H + 'px';
    const c = canvas.getContext('2d');
    c.scale(dpr, dpr);
    c.clearRect(0, 0, W, H);
    const x = v => LEFT + (v - from) / (to - from) * (W - LEFT);
    c.font = '11.5px ' + css('--sans');
    const step = niceStep((to - from) / Math.max(2, (W - LEFT) / 110));
    for (let v = Math.ceil((from - w.from) / step) * step; v <= to - w.from; v += step) {
      c.strokeStyle = css('--line'); c.beginPath(); c.moveTo(x(v + w.from), TOP - 6); c.lineTo(x(v + w.from), H); c.stroke();
      c.fillStyle = css('--faint');
      if (x(v + w.from) >= LEFT && x(v + w.from) + 3 + c.measureText(time(v)).width <= W) c.fillText(time(v), x(v + w.from) + 3, 13);
    }
    boxes = [];
    const hatch = c.createPattern(hatching(), 'repeat');
    const box = (a, b, y, h, fill, label, info, act) => {
      const xa = Math.max(LEFT, x(a)), xb = Math.min(W, x(b));
      if (xb <= LEFT || xa >= W) return;
      c.fillStyle = fill; c.fillRect(xa, y, Math.max(0.7, xb - xa - (xb - xa > 3 ? 0.6 : 0)), h);
      if (label && xb - xa > 30) { c.fillStyle = '#fff'; c.fillText(clipText(c, label, xb - xa - 8), xa + 4, y + h - 5); }
      boxes.push({xa, xb, y, h, info, act});
    };
    for (const b of w.blanks) box(b.s, b.e, base, rows * ROW, hatch, '', () => [b.n ? b.n + ' runs were not kept here' : 'no run in flight', [['time', time(b.e - b.s)], ['from', time(b.s - w.from)]]]);
    for (const e of w.scopes) box(e.s, e.e, TOP + e.r * SROW, SROW - 2, css('--c7'), e.n, () => [e.n, [['scope', time(e.e - e.s)], ['from', time(e.s - w.from)]]]);
    if (w.above) { c.fillStyle = css('--soft'); c.fillText('scopes', 0, TOP + 12); }
    for (const r of w.runs) r.l.forEach(([wake, done], i) => {
      const y = base + (r.r + i) * ROW + 2, plan = t.plans[r.p], h = ROW - 4;
      const info = what => () => [plan.name + ', run ' + (r.i + 1), [['lane', plan.lanes[i]], ['tokens', r.k], ['run', time(r.e - r.s)], what]];
      box(r.s, r.e, y, h, css('--wait'), '', info(['idle', wake ? time(r.e - r.s - (done - wake)) : 'not called into this run']));
      if (wake) box(wake, done, y, h, color(r.p), i ? '' : plan.name, info(['working', time(done - wake)]), r.d >= 0 && (() => pickRun(r.d)));
    });
    c.fillStyle = css('--soft');
    for (let i = 0; i < rows; i++) c.fillText('lane ' + (i + 1), 0, base + i * ROW + 16);
  }
  const find = e => { const r = canvas.getBoundingClientRect(), px = e.clientX - r.left, py = e.clientY - r.top; return boxes.findLast(b => px >= b.xa - 1 && px <= Math.max(b.xb, b.xa + 2) && py >= b.y && py < b.y + b.h); };
  const zoom = (f, at) => { const m = from + (to - from) * at; from = m - (m - from) * f; to = m + (to - m) * f; draw(); };
  const move = part => { const d = (to - from) * part; from += d; to += d; draw(); };
  canvas.addEventListener('wheel', e => { e.preventDefault(); const r = canvas.getBoundingClientRect(); zoom(e.deltaY > 0 ? 1.25 : 0.8, Math.max(0, (e.clientX - r.left - LEFT) / (r.width - LEFT))); }, {passive: false});
  canvas.addEventListener('pointerdown', e => { drag = {x: e.clientX, from, to, moved: false}; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener('pointerup', e => { const b = drag && !drag.moved && find(e); drag = null; if (b && b.act) b.act(); });
  canvas.addEventListener('pointermove', e => {
    if (drag) {
      const d = (drag.x - e.clientX) / (canvas.clientWidth - LEFT) * (drag.to - drag.from);
      drag.moved = drag.moved || Math.abs(drag.x - e.clientX) > 3;
      from = drag.from + d; to = drag.to + d; draw();
      return;
    }
    const b = find(e);
    b ? showTip(e, ...b.info()) : hideTip();
  });
  canvas.addEventListener('pointerleave', hideTip);
  canvas.addEventListener('keydown', e => {
    const f = {'+': () => zoom(0.7, 0.5), '=': () => zoom(0.7, 0.5), '-': () => zoom(1.4, 0.5), ArrowLeft: () => move(-1 / 6), ArrowRight: () => move(1 / 6), Escape: fit}[e.key];
    if (f) { e.preventDefault(); f(); }
  });
  fit();
  redraw.push(draw);
}
function hatching() {
  const h = document.createElement('canvas');
  h.width = h.height = 6;
  const c = h.getContext('2d');
  c.fillStyle = css('--hover'); c.fillRect(0, 0, 6, 6);
  c.strokeStyle = css('--wait'); c.beginPath(); c.moveTo(-1, 7); c.lineTo(7, -1); c.moveTo(-1, 1); c.lineTo(1, -1); c.moveTo(5, 7); c.lineTo(7, 5); c.stroke();
  return h;
}
const clipText = (c, text, w) => { if (c.measureText(text).width <= w) return text; let n = text.length; while (n > 1 && c.measureText(text.slice(0, n) + '…').width > w) n--; return n > 1 ? text.slice(0, n) + '…' : ''; };

// ---- timeline --------------------------------------------------------------
let pickRun = () => {};
function timelineSection() {
  const t = data.timeline;
  if (!t.runs.length) return;
  let run = t.runs.length - 1, from = 0, to = 1, hot = null, boxes = [];
  const which = el('span', {class: 'note'});
  const s = section('timeline', 'One run', 'Each lane of one run. Wheel or + and − zoom, drag or arrows move, n and p change the run.',
    which, el('div', {class: 'group'}, el('button', {onclick: () => pick(run - 1), title: 'Run before (p)'}, '‹'), el('button', {onclick: () => pick(run + 1), title: 'Next run (n)'}, '›')),
    el('button', {onclick: () => fit()}, 'Fit'));
  const canvas = el('canvas', {tabindex: 0, role: 'img', 'aria-label': 'Timeline of a run'});
  s.append(canvas, legend(data.ops));
  const LANE = 46, TOP = 26;
  let LEFT = 118;
  const fit = () => { const r = t.runs[run], w = r.e - r.s; from = -0.01 * w; to = 1.01 * w; draw(); };
  function pick(i) { if (t.runs[i]) { run = i; fit(); } }
  pickRun = i => { pick(i); s.scrollIntoView(); };
  function draw() {
    const r = t.runs[run], plan = t.plans[r.p], W = s.clientWidth - 42, H = TOP + r.l.length * LANE + 4, dpr = devicePixelRatio || 1;
    which.textContent = plan.name + ', run ' + (r.i + 1) + ', ' + r.k + ' tokens, ' + time(r.e - r.s) + ' (' + (run + 1) + ' of ' + t.runs.length + ' kept)';
    canvas.width = W * dpr; canvas.height = H * dpr; canvas.style.height = H + 'px';
    const c = canvas.getContext('2d');
    c.scale(dpr, dpr);
    c.clearRect(0, 0, W, H);
    const x = v => LEFT + (v - from) / (to - from) * (W - LEFT);
    c.font = '12.5px ' + css('--sans');
    LEFT = Math.min(118, 14 + Math.max(...plan.lanes.map(n => c.measureText(n).width)));
    c.font = '11.5px ' + css('--sans');
    c.fillStyle = css('--faint'); c.strokeStyle = css('--line');
    const step = niceStep((to - from) / Math.max(2, (W - LEFT) / 110));
    for (let v = Math.ceil(from / step) * step; v <= to; v += step) {
      c.beginPath(); c.moveTo(x(v), TOP - 6); c.lineTo(x(v), H); c.stroke();
      if (x(v) + 3 + c.measureText(time(v)).width <= W) c.fillText(time(v), x(v) + 3, 13);
    }
    boxes = [];
    const hatch = c.createPattern(hatching(), 'repeat');
    r.l.forEach((lane, i) => {
      const y = TOP + i * LANE;
      c.fillStyle = css('--soft'); c.font = '12.5px ' + css('--sans');
      c.fillText(clipText(c, plan.lanes[i], LEFT - 12), 0, y + LANE / 2 + 2);
      const box = (a, b, fill, label, info) => {
        const xa = Math.max(LEFT, x(a)), xb = Math.min(W, x(b));
        if (xb <= LEFT || xa >= W) return;
        c.fillStyle = fill; c.fillRect(xa, y + 3, Math.max(0.7, xb - xa - (xb - xa > 3 ? 0.7 : 0)), LANE - 9);
        if (label && xb - xa > 34) { c.fillStyle = '#fff'; c.font = '11.5px ' + css('--sans'); c.fillText(clipText(c, c.measureText(label).width > xb - xa - 8 ? label.slice(label.lastIndexOf('/') + 1) : label, xb - xa - 8), xa + 4, y + LANE / 2 + 2); }
        boxes.push({xa, xb, y, info});
      };
      if (lane.x) { box(0, r.e - r.s, hatch, '', () => ['idle', [['lane', plan.lanes[i]], ['was not called into this run', '']]]); return; }
      if (lane.w > 0) box(0, lane.w, hatch, '', () => [i ? 'idle' : 'dispatch', [['time', time(lane.w)]]]);
      for (let k = 0; k < lane.b.length; k += 4) {
        const [n, a, b, e] = [lane.b[k], lane.b[k + 1], lane.b[k + 2], lane.b[k + 3]], st = plan.steps[n];
        if (b > a) box(a, b, hatch, '', () => ['waiting at a barrier', [['before', st[0]], ['time', time(b - a)]]]);
        box(b, e, opColor(st[1]), st[0], () => [st[0], [['op', st[1]], ['kernel', st[2]], ['time', time(e - b)], ['from', time(b)], r.f[n] > 0 && ['FLOPs of all lanes', si(r.f[n], 'FLOP')], r.m[n] > 0 && ['bytes of all lanes', si(r.m[n], 'B')]]]);
      }
      if (lane.d < r.e - r.s) box(lane.d, r.e - r.s, hatch, '', () => [i ? 'idle' : 'dispatch', [['time', time(r.e - r.s - lane.d)]]]);
    });
  }
  function zoom(f, at) { const m = from + (to - from) * at; from = m - (m - from) * f; to = m + (to - m) * f; draw(); }
  const rel = e => { const r = canvas.getBoundingClientRect(); return {x: e.clientX - r.left, y: e.clientY - r.top, at: Math.max(0, (e.clientX - r.left - LEFT) / (r.width - LEFT))}; };
  canvas.addEventListener('wheel', e => { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : 0.8, rel(e).at); }, {passive: false});
  let drag = null;
  canvas.addEventListener('pointerdown', e => { drag = e.clientX; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener('pointerup', () => { drag = null; });
  canvas.addEventListener('pointermove', e => {
    if (drag !== null) { const d = (e.clientX - drag) / (canvas.clientWidth - LEFT) * (to - from); drag = e.clientX; from -= d; to -= d; draw(); hideTip(); return; }
    const p = rel(e);
    hot = boxes.find(b => p.x >= b.xa && p.x <= Math.max(b.xb, b.xa + 2) && p.y >= b.y && p.y <= b.y + LANE);
    hot ? showTip(e, ...hot.info()) : hideTip();
  });
  canvas.addEventListener('pointerleave', hideTip);
  canvas.addEventListener('keydown', e => {
    const w = to - from;
    const f = {'+': () => zoom(0.7, 0.5), '=': () => zoom(0.7, 0.5), '-': () => zoom(1.4, 0.5), ArrowLeft: () => { from -= w / 6; to -= w / 6; draw(); }, ArrowRight: () => { from += w / 6; to += w / 6; draw(); }, n: () => pick(run + 1), p: () => pick(run - 1), Escape: fit}[e.key];
    if (f) { e.preventDefault(); f(); }
  });
  fit();
  redraw.push(draw);
}
function niceStep(v) { const p = Math.pow(10, Math.floor(Math.log10(Math.max(v, 1)))); for (const m of [1, 2, 5, 10]) if (p * m >= v) return p * m; return p * 10; }

function textWidth(texts) {
  const c = document.createElement('canvas').getContext('2d');
  c.font = '12px ' + css('--sans');
  return Math.max(0, ...texts.map(t => c.measureText(t).width));
}

// ---- roofline ---------------------------------------------------------------
function rooflineSection() {
  const pts = data.steps.filter(s => s.flops > 0 && s.bytes > 0 && s.clock > 0);
  if (!data.ceilings.length || !pts.length) return;
  const s = section('roofline', 'Roofline', 'Each step by what it computes for a byte and how fast; size is its time. On its line a step cannot get faster on this machine.');
  const host = el('div');
  s.append(host, legend(data.ops));
  const c = data.ceilings[0];
  const lines = data.ceilings.filter(k => k.backend === c.backend).flatMap(k => [['f32', k.flops], ...Object.entries(k.class || {})].map(([n, v]) => [n + k.lanes, v])).filter(([, v]) => v > 0);
  const total = data.steps.reduce((t, p) => t + p.self, 0);
  drawn(() => {
    // Beside the plot there is room for names on a wide page only.
    const W = Math.max(320, host.clientWidth), narrow = W < 640, H = 420, L = narrow ? 86 : 88, R = narrow ? 8 : 22 + textWidth(lines.map(([n, v]) => n + ' ' + si(v, 'FLOP/s'))), T = 14, B = 44;
    const xs = pts.map(p => p.flops / p.bytes), ys = pts.map(p => p.flops / p.clock * 1e9);
    const lo = v => Math.pow(10, Math.floor(Math.log10(v))), hi = v => Math.pow(10, Math.ceil(Math.log10(v)));
    const top = Math.max(...lines.map(l => l[1]), ...ys);
    const x0 = lo(Math.min(...xs)), x1 = hi(Math.max(...xs, top / (c.bytes || top))), y0 = lo(Math.min(...ys)), y1 = hi(top);
    const X = v => L + Math.log(v / x0) / Math.log(x1 / x0) * (W - L - R), Y = v => H - B - Math.log(v / y0) / Math.log(y1 / y0) * (H - T - B);
    const svg = sv('svg', {class: 'roofline', viewBox: '0 0 ' + W + ' ' + H, role: 'img', 'aria-label': 'Roofline plot'});
    svg.style.height = H + 'px';
    const decades = Math.log10(x1 / x0), every = Math.max(1, Math.ceil(42 * decades / (W - L - R)));
    for (let v = x0, i = 0; v <= x1 * 1.01; v *= 10, i++) { svg.append(sv('line', {class: 'axis', x1: X(v), x2: X(v), y1: T, y2: H - B}), sv('text', {class: 'tick', x: X(v), y: H - B + 17, 'text-anchor': narrow && v > x1 * .99 ? 'end' : 'middle'}, i % every ? '' : v >= 1 ? v.toLocaleString('en') : String(+v.toPrecision(1)))); }
    for (let v = y0; v <= y1 * 1.01; v *= 10) { svg.append(sv('line', {class: 'axis', x1: L, x2: W - R, y1: Y(v), y2: Y(v)}), sv('text', {class: 'tick', x: L - 8, y: Y(v) + 4, 'text-anchor': 'end'}, si(v, 'FLOP/s'))); }
    svg.append(sv('text', {class: 'label', x: (L + W - R) / 2, y: H - 6, 'text-anchor': 'middle'}, 'FLOPs for a byte moved'));
    const most = Math.max(...lines.map(l => l[1])), names = []; // names lie over the points
    if (c.bytes > 0) {
      const xe = Math.min(x1, most / c.bytes), xb = Math.max(x0, y0 / c.bytes);
      svg.append(sv('line', {class: 'ceil', x1: X(xb), y1: Y(xb * c.bytes), x2: X(xe), y2: Y(xe * c.bytes)}));
      const xm = Math.sqrt(xb * xe), angle = Math.atan2(Y(xe * c.bytes) - Y(xb * c.bytes), X(xe) - X(xb)) * 180 / Math.PI;
      names.push(sv('text', {class: 'label', x: X(xm), y: Y(xm * c.bytes) - 7, 'text-anchor': 'middle', transform: 'rotate(' + angle + ' ' + X(xm) + ' ' + Y(xm * c.bytes) + ')'}, si(c.bytes, 'B/s of memory')));
    }
    const placed = [];
    for (const [name, v] of lines.sort((a, b) => b[1] - a[1])) {
      svg.append(sv('line', {class: 'ceil', x1: X(Math.max(x0, c.bytes > 0 ? v / c.bytes : x0)), x2: W - R, y1: Y(v), y2: Y(v)}));
      let y = Y(v) + (narrow ? -6 : 4);
      while (placed.some(p => Math.abs(p - y) < 14)) y += 3;
      placed.push(y);
      names.push(sv('text', {class: 'label', x: narrow ? W - R - 4 : W - R + 8, y, 'text-anchor': narrow ? 'end' : 'start'}, name + ' ' + si(v, 'FLOP/s')));
    }
    for (const p of [...pts].sort((a, b) => b.self - a.self)) {
      const dot = sv('circle', {class: 'pt', cx: X(p.flops / p.bytes), cy: Y(p.flops / p.clock * 1e9), r: 3 + 26 * Math.sqrt(p.self / total), fill: opColor(p.op), 'fill-opacity': .75});
      dot.addEventListener('mousemove', e => showTip(e, p.name, stepTip(p)));
      dot.addEventListener('mouseleave', hideTip);
      svg.append(dot);
    }
    svg.append(...names);
    host.replaceChildren(svg);
  });
}
const stepTip = p => [['op', p.op], ['kernel', p.kernel], ['class', p.class], ['self time', time(p.self)], ['on the clock', time(p.clock)], ['p50, p99 of a call', time(p.p50) + ', ' + time(p.p99)], ['rate', si(perTime(p.flops, p.clock) * 1e9, 'FLOP/s')],
  ['memory', si(perTime(p.bytes, p.clock) * 1e9, 'B/s')], p.floor > 0 && ['of the roofline', pct(100 * perTime(p.floor, p.clock))], p.floor > 0 && ['lost', time(p.lost)]];

// ---- memory -----------------------------------------------------------------
const CLASSES = ['activations', 'scratch', 'io', 'state', 'weights'];
const classColor = c => css('--c' + (CLASSES.includes(c) ? CLASSES.indexOf(c) : COLORS - 1));
function memorySection() {
  const m = data.memory;
  if (!m.plans.length && !m.counters.length && !m.classes.length) return;
  let plan = m.plans[0], pinned = -1;
  const on = new Set(['activations', 'scratch', 'io']);
  const traffic = el('div');
  // Where activations are next to nothing, as in decoding, the rest is what there is to see.
  const held = (p, cs) => p.buffers.filter(b => cs.includes(b[1])).reduce((t, b) => t + b[3], 0);
  const pickClasses = () => { if (plan && held(plan, ['activations', 'scratch']) < 0.1 * held(plan, ['state', 'weights'])) ['state', 'weights'].forEach(c => on.add(c)); };
  pickClasses();
  const tools = [];
  if (m.plans.length > 1) tools.push(el('select', {'aria-label': 'Plan', onchange: e => { plan = m.plans[e.target.value]; pinned = -1; pickClasses(); draw(); drawTraffic(); }}, m.plans.map((p, i) => el('option', {value: i}, p.name))));
  const s = section('memory', 'Memory', m.plans.length ? 'What each step of a plan holds, at its largest batch. Point at a step to see who owns every byte.' : '', ...tools);
  let draw = () => {};
  if (m.plans.length) {
    const chips = el('div', {class: 'legend'}), chart = el('div'), owners = el('div', {class: 'owners'});
    s.append(el('div', {class: 'two'}, el('div', {}, chart, chips), owners));
    draw = () => {
      const n = plan.steps.length;
      const classes = CLASSES.concat([...new Set(plan.buffers.map(b => b[1]))].filter(c => !CLASSES.includes(c)));
      chips.replaceChildren(...classes.filter(c => plan.buffers.some(b => b[1] === c)).map(c => {
        const b = el('button', {class: 'chip', 'aria-pressed': on.has(c), onclick: () => { on.has(c) ? on.delete(c) : on.add(c); draw(); }}, el('span', {class: 'dot', style: '--k:' + classColor(c)}), c + ' ' + bytes(plan.buffers.filter(x => x[1] === c && (c === 'weights' || c === 'state' || c === 'io')).reduce((t, x) => t + x[3], 0) || peakOf(c)));
        return b;
      }));
      function liveOf(c) { const v = new Array(n).fill(0); for (const b of plan.buffers) if (b[1] === c) for (let i = b[4]; i <= b[5]; i++) v[i] += b[3]; return v; }
      function peakOf(c) { return Math.max(0, ...liveOf(c)); }
      const shown = classes.filter(c => on.has(c)), stack = shown.map(liveOf);
      const sum = stack.length ? stack[0].map((_, i) => stack.reduce((t, v) => t + v[i], 0)) : new Array(n).fill(0);
      const top = Math.max(1, ...sum), peak = sum.indexOf(Math.max(...sum));
      const W = Math.max(300, chart.clientWidth), H = 300, L = 74, B = 26, T = 22, X = i => L + i / n * (W - L), Y = v => H - B - v / top * (H - B - T);
      const svg = sv('svg', {viewBox: '0 0 ' + W + ' ' + H, role: 'img', 'aria-label': 'Memory by step'});
      svg.style.height = H + 'px';
      for (let i = 0; i <= 4; i++) { const v = top * i / 4; svg.append(sv('line', {class: 'axis', x1: L, x2: W, y1: Y(v), y2: Y(v)}), sv('text', {class: 'tick', x: L - 8, y: Y(v) + 4, 'text-anchor': 'end'}, bytes(Math.round(v)))); }
      const base = new Array(n).fill(0);
      stack.forEach((v, k) => {
        let d = 'M' + X(0) + ' ' + Y(base[0]);
        for (let i = 0; i < n; i++) d += 'L' + X(i) + ' ' + Y(base[i] + v[i]) + 'L' + X(i + 1) + ' ' + Y(base[i] + v[i]);
        for (let i = n - 1; i >= 0; i--) d += 'L' + X(i + 1) + ' ' + Y(base[i]) + 'L' + X(i) + ' ' + Y(base[i]);
        svg.append(sv('path', {d: d + 'Z', fill: classColor(shown[k]), 'fill-opacity': .85}));
        v.forEach((b, i) => { base[i] += b; });
      });
      svg.append(sv('line', {x1: X(peak + .5), x2: X(peak + .5), y1: T - 4, y2: H - B, stroke: css('--ink'), 'stroke-dasharray': '3 3'}),
        sv('text', {x: Math.min(X(peak + .5) + 6, W - 150), y: T - 8}, 'peak ' + bytes(top)),
        sv('text', {class: 'tick', x: L, y: H - 8}, 'step 0'), sv('text', {class: 'tick', x: W, y: H - 8, 'text-anchor': 'end'}, 'step ' + (n - 1)));
      const at = e => { const r = svg.getBoundingClientRect(); return Math.max(0, Math.min(n - 1, Math.floor((e.clientX - r.left - L * r.width / W) / (r.width * (1 - L / W)) * n))); };
      svg.addEventListener('mousemove', e => { const i = at(e); showTip(e, plan.steps[i], shown.map((c, k) => [c, bytes(stack[k][i])])); if (pinned < 0) list(i); });
      svg.addEventListener('mouseleave', () => { hideTip(); if (pinned < 0) list(peak); });
      svg.addEventListener('click', e => { const i = at(e); pinned = pinned === i ? -1 : i; list(i); });
      function list(i) {
        const live = plan.buffers.filter(b => on.has(b[1]) && b[4] <= i && i <= b[5] && b[3] > 0).sort((a, b) => b[3] - a[3]);
        owners.replaceChildren(el('b', {}, (i === peak ? 'At the peak: ' : 'At ') + plan.steps[i]), plainTable(['owner', 'class', 'bytes'], live.slice(0, 200).map(b => [b[0], b[1], bytes(b[3])]), 2));
      }
      list(pinned < 0 ? peak : pinned);
      chart.replaceChildren(svg);
    };
    drawn(draw);
  }
  // What decoding waits for: the bytes that each layer moves in a run.
  function drawTraffic() {
    const rows = plan && plan.traffic || [];
    if (!rows.length) { traffic.replaceChildren(); return; }
    const layers = [...new Set(rows.map(r => r[0]))].sort((a, b) => a - b), sums = layers.map(l => rows.filter(r => r[0] === l).reduce((t, r) => t + r[2], 0)), top = Math.max(1, ...sums), all = sums.reduce((a, b) => a + b, 0);
    const W = Math.max(300, traffic.clientWidth || main.clientWidth - 42), H = 210, L = 84, B = 30, T = 14, step = (W - L) / layers.length, Y = v => H - B - v / top * (H - B - T);
    const svg = sv('svg', {viewBox: '0 0 ' + W + ' ' + H, role: 'img', 'aria-label': 'Bytes moved by layer'});
    svg.style.height = H + 'px';
    for (let i = 0; i <= 4; i++) { const v = top * i / 4; svg.append(sv('line', {class: 'axis', x1: L, x2: W, y1: Y(v), y2: Y(v)}), sv('text', {class: 'tick', x: L - 8, y: Y(v) + 4, 'text-anchor': 'end'}, bytes(Math.round(v)))); }
    const every = Math.ceil(44 / step);
    layers.forEach((l, i) => {
      let base = 0;
      for (const r of rows.filter(r => r[0] === l).sort((a, b) => b[2] - a[2])) {
        const b = sv('rect', {x: L + i * step + 1, width: Math.max(1, step - 2), y: Y(base + r[2]), height: Math.max(0.3, Y(base) - Y(base + r[2])), fill: opColor(r[1])});
        base += r[2];
        b.addEventListener('mousemove', e => showTip(e, (l < 0 ? 'outside of layers' : 'layer ' + l) + ', ' + r[1], [['bytes per run', bytes(r[2])], ['of the layer', pct(100 * r[2] / sums[i])], ['of the run', pct(100 * r[2] / all)]]));
        b.addEventListener('mouseleave', hideTip);
        svg.append(b);
      }
      if (i % every === 0) svg.append(sv('text', {class: 'tick', x: L + (i + 0.5) * step, y: H - 12, 'text-anchor': 'middle'}, l < 0 ? 'none' : l));
    });
    traffic.replaceChildren(el('p', {class: 'note'}, 'Bytes that ' + plan.name + ' moves in a run, by layer and op: ' + bytes(all) + ' in all'), svg);
  }
  if (m.plans.length) { s.append(traffic); drawn(drawTraffic); }
  for (const c of m.counters.filter(c => c.samples.length > 1)) s.append(lineChart(c));
  if (m.classes.length) {
    const most = Math.max(1, ...m.classes.map(c => c[2]));
    s.append(el('p', {class: 'note'}, 'What the process holds'), sortable([{head: 'owner', left: true, get: c => c[0]}, {head: 'class', left: true, get: c => c[1]},
      {head: 'bytes', get: c => c[2], show: c => bytes(c[2]), bar: c => 100 * c[2] / most, color: c => classColor(c[1])}], () => m.classes, 2).table);
  }
  for (const line of m.notes) s.append(el('p', {class: 'note'}, line));
}
function lineChart(c) {
  const host = el('div');
  const show = v => c.unit === 'bytes' ? bytes(v) : si(v, c.unit);
  drawn(() => {
    const W = Math.max(300, (host.parentNode ? host.clientWidth : 0) || main.clientWidth - 42), H = 120, L = 84, B = 22, T = 20;
    const t0 = c.samples[0][0], t1 = c.samples[c.samples.length - 1][0] || 1, top = Math.max(...c.samples.map(s => s[1])) || 1;
    const X = t => L + (t - t0) / (t1 - t0 || 1) * (W - L - 6), Y = v => H - B - v / top * (H - B - T);
    const svg = sv('svg', {viewBox: '0 0 ' + W + ' ' + H, role: 'img', 'aria-label': c.name});
    svg.style.height = H + 'px';
    let d = '';
    c.samples.forEach(([t, v], i) => { d += i ? 'H' + X(t) + 'V' + Y(v) : 'M' + X(t) + ' ' + Y(v); });
    svg.append(sv('line', {class: 'axis', x1: L, x2: W, y1: Y(0), y2: Y(0)}), sv('line', {class: 'axis', x1: L, x2: W, y1: Y(top), y2: Y(top)}),
      sv('text', {class: 'tick', x: L - 8, y: Y(top) + 4, 'text-anchor': 'end'}, show(top)), sv('text', {class: 'tick', x: L - 8, y: Y(0) + 4, 'text-anchor': 'end'}, '0'),
      sv('path', {d: d + 'V' + Y(0) + 'H' + X(t0) + 'Z', fill: css('--accent'), 'fill-opacity': .15}), sv('path', {d, fill: 'none', stroke: css('--accent'), 'stroke-width': 1.6}),
      sv('text', {class: 'label', x: L, y: 12}, c.name), sv('text', {class: 'tick', x: W - 6, y: H - 6, 'text-anchor': 'end'}, time(t1 - t0)));
    svg.addEventListener('mousemove', e => {
      const r = svg.getBoundingClientRect(), t = t0 + (e.clientX - r.left - L * r.width / W) / (r.width * (W - L - 6) / W) * (t1 - t0);
      let best = c.samples[0];
      for (const p of c.samples) if (p[0] <= t) best = p;
      showTip(e, c.name, [['at', time(best[0] - t0)], ['value', show(best[1])]]);
    });
    svg.addEventListener('mouseleave', hideTip);
    host.replaceChildren(svg);
  });
  return host;
}

function stepsSection() {
  if (!data.steps.length) return;
  const filter = el('input', {type: 'search', placeholder: 'Filter', 'aria-label': 'Filter steps'});
  const s = section('steps', 'Steps', 'Self is compute, as wall time; lost is what it takes beyond the roofline.', filter);
  const most = Math.max(...data.steps.map(p => p.self)), lost = Math.max(1, ...data.steps.map(p => p.lost));
  const cols = [{head: 'step', left: true, get: p => p.name, show: p => el('span', {}, el('span', {class: 'dot', style: '--k:' + opColor(p.op)}), p.name)}, ...(new Set(data.steps.map(p => p.plan)).size > 1 ? [{head: 'plan', left: true, get: p => p.plan}] : []), {head: 'kernel', left: true, get: p => p.kernel},
    {head: 'calls', get: p => p.calls}, {head: 'self ms', get: p => p.self, show: p => ms(p.self), bar: p => 100 * p.self / most, color: p => opColor(p.op)},
    {head: 'p50 µs', get: p => p.p50, show: p => (p.p50 / 1e3).toFixed(1)}, {head: 'p95', get: p => p.p95, show: p => (p.p95 / 1e3).toFixed(1)}, {head: 'p99', get: p => p.p99, show: p => (p.p99 / 1e3).toFixed(1)},
    {head: 'clock ms', get: p => p.clock, show: p => ms(p.clock)}, {head: 'wait ms', get: p => p.wait, show: p => ms(p.wait)}, {head: 'GFLOP/s', get: p => perTime(p.flops, p.clock), show: p => perTime(p.flops, p.clock).toFixed(1)}, {head: 'GB/s', get: p => perTime(p.bytes, p.clock), show: p => perTime(p.bytes, p.clock).toFixed(1)}];
  if (data.ceilings.length) cols.push({head: 'roofline', get: p => perTime(p.floor, p.clock), show: p => p.floor ? pct(100 * perTime(p.floor, p.clock)) : '–'}, {head: 'lost ms', get: p => p.lost, show: p => p.floor ? ms(p.lost) : '–', bar: p => 100 * p.lost / lost, color: () => 'var(--c4)'});
  const rows = () => { const q = filter.value.toLowerCase(); return data.steps.filter(p => !q || (p.name + ' ' + p.op + ' ' + p.kernel + ' ' + p.plan).toLowerCase().includes(q)); };
  const t = sortable(cols, rows, cols.findIndex(c => c.head === 'self ms'));
  t.table.classList.add('wide');
  filter.addEventListener('input', t.fill);
  redraw.push(t.fill);
  s.append(t.table);
}
function scopesSection() {
  if (!data.scopes.length && !data.requests.length) return;
  const s = section('scopes', data.scopes.length ? 'Scopes' : 'Requests', data.scopes.length ? 'Your own code; self is the time in which no inner scope was open.' : '');
  const heads = ['scope', 'calls', 'total', 'self', 'min', 'mean', 'p50', 'p95', 'p99', 'max'];
  if (data.scopes.length) s.append(plainTable(heads, data.scopes.map(c => [' '.repeat(4 * c.depth) + c.name, c.calls, ...c.times.map(time)])));
  if (data.requests.length) s.append(el('p', {class: 'note'}, 'Requests'), plainTable(['', 'count', 'mean', 'p50', 'p95', 'p99', 'max'], data.requests.map(r => [r.name, r.count, ...r.times.map(time)])));
}

[overview, flameSection, treeSection, wallSection, timelineSection, rooflineSection, memorySection, stepsSection, scopesSection].forEach(f => f());
document.documentElement.dataset.ready = 'yes';
