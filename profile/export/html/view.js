'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const SVG = 'http://www.w3.org/2000/svg';

// el makes an element. Text only ever becomes a text node: names come from files.
function el(tag, attrs, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (k.startsWith('aria-') && v !== undefined) e.setAttribute(k, String(v));
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? '' : v);
  }
  e.append(...children.flat().filter(c => c !== undefined && c !== null).map(c => typeof c === 'number' ? String(c) : c));
  return e;
}
function sv(tag, attrs, text) {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Numbers.
function si(v, unit) {
  const a = Math.abs(v), p = ['', 'k', 'M', 'G', 'T', 'P'];
  let i = 0, x = v;
  while (Math.abs(x) >= 1000 && i < p.length - 1) { x /= 1000; i++; }
  return (a === 0 ? '0' : x.toPrecision(3).replace(/\.?0+$/, m => m.includes('.') ? '' : m)) + ' ' + p[i] + unit;
}
function time(ns) {
  const a = Math.abs(ns);
  if (a >= 1e9) return (ns / 1e9).toFixed(2) + ' s';
  if (a >= 1e6) return (ns / 1e6).toFixed(2) + ' ms';
  if (a >= 1e3) return (ns / 1e3).toFixed(1) + ' µs';
  return Math.round(ns) + ' ns';
}
function bytes(n) {
  const p = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < 4) { n /= 1024; i++; }
  return (i ? n.toFixed(n < 10 ? 2 : 1) : n) + ' ' + p[i];
}
const pct = v => (Math.abs(v) >= 99.95 ? v.toFixed(0) : v.toFixed(1)) + ' %';
const signed = (v, f) => (v > 0 ? '+' : '') + f(v);
const ms = ns => (ns / 1e6).toFixed(3);

// Colours: one for each family of ops, the same in every page.
const COLORS = 8;
const opIndex = op => (data.colors || {})[op] ?? COLORS - 1;
const opColor = op => css('--c' + opIndex(op));

// The tip under the pointer.
const tip = document.getElementById('tip');
function showTip(ev, title, rows) {
  tip.replaceChildren(el('b', {}, title), ...rows.filter(Boolean).map(([k, v]) => el('span', {}, el('i', {}, k), v)));
  tip.classList.add('on');
  const r = tip.getBoundingClientRect(), x = ev.clientX + 14, y = ev.clientY + 16;
  tip.style.left = Math.max(6, Math.min(x, innerWidth - r.width - 8)) + 'px';
  tip.style.top = Math.max(6, y + r.height > innerHeight - 8 ? ev.clientY - r.height - 12 : y) + 'px';
}
const hideTip = () => tip.classList.remove('on');

// Sections register here; draw is called again when width or theme change.
const main = document.querySelector('main'), nav = document.querySelector('nav');
const redraw = [];
function section(id, title, note, ...tools) {
  const s = el('section', {id}, el('div', {class: 'head'}, el('h2', {}, title), el('p', {}, note || ''), ...tools));
  main.append(s);
  nav.append(el('a', {href: '#' + id}, title));
  return s;
}
function drawn(f) { redraw.push(f); f(); }
let resizing;
addEventListener('resize', () => { clearTimeout(resizing); resizing = setTimeout(() => redraw.forEach(f => f()), 80); });

function group(names, current, pick) {
  const g = el('div', {class: 'group', role: 'group'});
  const show = name => [...g.children].forEach(b => b.setAttribute('aria-pressed', b.dataset.name === name));
  for (const [name, label] of names)
    g.append(el('button', {'data-name': name, onclick: () => { show(name); pick(name); }}, label));
  show(current);
  return g;
}
function legend(ops) {
  const by = new Map();
  for (const op of ops) by.set(opIndex(op), [...(by.get(opIndex(op)) || []), op]);
  const name = list => list.slice(0, 3).join(', ') + (list.length > 3 ? ' …' : '');
  return el('div', {class: 'legend'}, [...by].map(([i, list]) => el('span', {style: '--k:var(--c' + i + ')', title: list.join(', ')}, name(list))),
    el('span', {style: '--k:var(--wait)'}, 'waiting'));
}

// Theme: what the system says, until the button is used.
const themeButton = document.getElementById('theme');
function setTheme(t) {
  document.documentElement.dataset.theme = t;
  themeButton.textContent = t === 'dark' ? 'Light' : 'Dark';
  redraw.forEach(f => f());
}
themeButton.addEventListener('click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
document.documentElement.dataset.theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
themeButton.textContent = document.documentElement.dataset.theme === 'dark' ? 'Light' : 'Dark';
addEventListener('keydown', e => {
  if (e.target.tagName === 'INPUT' || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === 't') themeButton.click();
  if (e.key === '/') { const s = document.querySelector('#flame input'); if (s) { e.preventDefault(); s.focus(); } }
});

// ---- flame graph: an icicle, the root on top -----------------------------
const ROW = 21;
function flame(host, root, o) {
  const linked = r => { (function link(n, parent, depth) { n.parent = parent; n.depth = depth; (n.c || []).forEach(k => link(k, n, depth + 1)); })(r, null, 0); return r; };
  const svg = sv('svg', {class: 'flame', role: 'img', 'aria-label': o.label});
  host.append(svg);
  let focus = root, query = '';
  linked(root);
  // A node's width is never less than its children's: what is lost may be
  // negative in one and positive in another.
  const width = new Map();
  function measure(n) {
    const own = Math.max(0, o.value(n)), kids = (n.c || []).reduce((s, k) => s + measure(k), 0);
    const w = n.c && n.c.length ? (o.sumOnly ? kids : Math.max(own, kids)) : own;
    width.set(n, w);
    return w;
  }
  const hit = n => query && n.n.toLowerCase().includes(query);
  function draw() {
    measure(root);
    const W = Math.max(200, host.clientWidth), nodes = [];
    let deep = 0;
    const up = [];
    for (let n = focus; n; n = n.parent) up.unshift(n);
    up.slice(0, -1).forEach((n, i) => nodes.push([n, 0, W, i]));
    (function lay(n, x, w, d) {
      nodes.push([n, x, w, d]);
      deep = Math.max(deep, d);
      let at = x;
      const all = width.get(n);
      for (const k of n.c || []) {
        const kw = all > 0 ? w * width.get(k) / all : 0;
        if (kw >= 0.6) lay(k, at, kw, d + 1);
        at += kw;
      }
    })(focus, 0, W, up.length - 1);
    const H = (deep + 1) * ROW + 2;
    svg.setAttribute('viewBox', '0 0 ' + W + ' ' + H);
    svg.style.height = H + 'px';
    svg.replaceChildren(...nodes.map(([n, x, w, d]) => {
      const c = o.color(n), g = sv('g', {tabindex: n === focus ? 0 : -1, class: (query && !hit(n) ? 'out ' : '') + (c.pale ? 'pale' : '')});
      g.append(sv('rect', w > 4 ? {x, y: d * ROW, width: w, height: ROW - 1, rx: 2, fill: c.fill} : {x, y: d * ROW, width: Math.max(0.5, w), height: ROW - 1, fill: c.fill, class: 'thin'}));
      const room = Math.floor((w - 10) / 7.2);
      if (room >= 3) g.append(sv('text', {x: x + 5, y: d * ROW + 14.5}, n.n.length > room ? n.n.slice(0, room - 1) + '…' : n.n));
      g.node = n;
      return g;
    }));
    if (o.onzoom) o.onzoom(focus);
  }
  const at = e => { const g = e.target.closest('g'); return g && g.node; };
  function zoom(n) { focus = n; draw(); const g = [...svg.children].find(c => c.node === n); if (g) g.focus({preventScroll: true}); }
  svg.addEventListener('click', e => { const n = at(e); if (n) zoom(n === focus && n.parent ? n.parent : n); });
  svg.addEventListener('mousemove', e => { const n = at(e); n ? showTip(e, o.path(n), o.tip(n, root)) : hideTip(); });
  svg.addEventListener('mouseleave', hideTip);
  svg.addEventListener('keydown', e => {
    const n = at(e);
    if (!n) return;
    const kids = (n.c || []).filter(k => width.get(k) > 0), sibs = n.parent ? n.parent.c.filter(k => width.get(k) > 0) : [n], i = sibs.indexOf(n);
    const go = {ArrowDown: kids[0], ArrowUp: n.parent, ArrowLeft: sibs[i - 1], ArrowRight: sibs[i + 1]}[e.key];
    if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); zoom(n); }
    else if (e.key === 'Escape') zoom(root);
    else if (go) {
      e.preventDefault();
      let g = [...svg.children].find(c => c.node === go);
      if (!g) { zoom(go); g = [...svg.children].find(c => c.node === go); }
      [...svg.children].forEach(c => c.setAttribute('tabindex', c === g ? 0 : -1));
      g.focus();
    }
  });
  drawn(draw);
  return {
    draw, reset: () => zoom(root),
    show(r) { root = linked(r); focus = root; draw(); },
    search(q) {
      query = q.trim().toLowerCase();
      draw();
      if (!query) return null;
      let sum = 0, count = 0;
      (function walk(n) { if (hit(n)) { sum += width.get(n); count++; } else (n.c || []).forEach(walk); })(root);
      return {count, share: width.get(root) ? 100 * sum / width.get(root) : 0};
    },
  };
}
const pathOf = n => { const p = []; for (; n; n = n.parent) p.unshift(n.n); return p.join(' › '); };

// ---- tables ---------------------------------------------------------------
// cols: {head, left, get, show, bar}. Sorting keeps the largest first.
function sortable(cols, rows, start) {
  let key = start;
  const body = el('tbody'), heads = cols.map(c => el('th', {class: 'sort' + (c.left ? ' l' : ''), tabindex: 0, scope: 'col'}, c.head));
  function fill() {
    const c = cols[key];
    const sorted = [...rows()].sort((a, b) => { const x = c.get(a), y = c.get(b); return typeof x === 'string' ? x.localeCompare(y) : y - x; });
    heads.forEach((h, i) => i === key ? h.setAttribute('aria-sort', c.left ? 'ascending' : 'descending') : h.removeAttribute('aria-sort'));
    body.replaceChildren(...sorted.map(r => el('tr', {}, cols.map(c => {
      const td = el('td', {class: c.left ? 'l' : ''});
      const v = c.show ? c.show(r) : c.get(r);
      td.append(v instanceof Node ? v : String(v));
      if (c.left) td.title = td.textContent;
      if (c.bar) td.append(el('span', {class: 'meter'}, el('span', {style: 'width:' + Math.max(0, Math.min(100, c.bar(r))) + '%' + (c.color ? ';--k:' + c.color(r) : '')})));
      return td;
    }))));
  }
  heads.forEach((h, i) => {
    const pick = () => { key = i; fill(); };
    h.addEventListener('click', pick);
    h.addEventListener('keydown', e => { if (e.key === 'Enter') pick(); });
  });
  fill();
  return {table: el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, el('tr', {}, heads)), body)), fill};
}
function plainTable(heads, rows, left = 1) {
  const side = i => ({class: i < left ? 'l' : ''});
  return el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, el('tr', {}, heads.map((h, i) => el('th', {...side(i), scope: 'col'}, h)))),
    el('tbody', {}, rows.map(r => el('tr', {}, r.map((c, i) => el('td', side(i), c)))))));
}

function cards(list) {
  return el('div', {class: 'cards'}, list.map(c => el('div', {class: 'card'}, el('i', {}, c.label), el('b', {}, c.value), el('small', {}, c.note || ''))));
}
function facts(list) {
  return el('dl', {class: 'facts'}, list.flatMap(([k, v]) => [el('dt', {}, k), el('dd', {}, v)]));
}
