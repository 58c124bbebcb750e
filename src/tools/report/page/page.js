"use strict";
// All data of the checkpoint are inserted as text (textContent), never as
// markup. Nodes: modules [key, children], leaves [key, kind, ...]; see
// src/tools/report/report_data.h.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const ROWS = 500;        // shown before "more"
const BOXES_MAX = 3000;  // of the map
const [KEY, KIND, DTYPE, SHAPE, STORED, DECODED, CHUNKS, CHUNK_SHAPE, CODECS,
       STATS, DIFF] = Array(11).keys();
const at = (id) => document.getElementById(id);

const make = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.onclick = value;
    else element.setAttribute(name, value);
  }
  return element;
};
const draw = (tag, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  if (text !== undefined) element.textContent = text;
  return element;
};

// ---- Numbers as text.
const scaled = (number, units, step) => {
  let unit = 0;
  while (number >= step && unit + 1 < units.length) { number /= step; ++unit; }
  const digits = unit === 0 ? 0 : number < 10 ? 2 : number < 100 ? 1 : 0;
  return number.toFixed(digits) + units[unit];
};
const bytesText = (n) => scaled(n, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"], 1024);
const countText = (n) => scaled(n, ["", "K", "M", "B", "T"], 1000);
const realText = (x) => x === null || x === undefined ? "" :
    x === 0 ? "0" : Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ?
    String(+x.toPrecision(4)) : x.toExponential(2);
const percentText = (share) => share === null ? "" : share === 0 ? "0" :
    share < 0.0005 ? "<0.05 %" : (100 * share).toFixed(1) + " %";
const dateText = (ms) => new Date(ms).toISOString().replace("T", " ").slice(0, 19) + " UTC";

// ---- The tree, with sums over each module.
const isLeaf = (node) => !Array.isArray(node[1]);
const elements = (leaf) => leaf[DTYPE] < 0 ? 0 : leaf[SHAPE].reduce((a, b) => a * b, 1);
const sums = new Map();
const parents = new Map();
const allLeaves = [];
const sumUp = (node, name) => {
  let sum;
  if (isLeaf(node)) {
    const stats = Array.isArray(node[STATS]) ? node[STATS] : null;
    const count = elements(node);
    const isArray = data.kinds[node[KIND]] === "array";
    sum = {name, leaves: 1, parameters: isArray ? count : 0, stored: node[STORED],
           decoded: node[DECODED], elements: stats ? count : 0,
           zeros: stats ? stats[0] : 0, odd: stats ? stats[1] + stats[2] : 0,
           squares: stats ? (stats[7] || 0) ** 2 : 0,
           changed: node[DIFF] ? 1 : 0, moved: node[DIFF] ? node[DIFF][1] || 0 : 0,
           unreadable: typeof node[STATS] === "string" ? 1 : 0};
    allLeaves.push(node);
  } else {
    sum = {name, leaves: 0, parameters: 0, stored: 0, decoded: 0, elements: 0,
           zeros: 0, odd: 0, squares: 0, changed: 0, moved: 0, unreadable: 0};
    for (const child of node[1]) {
      const below = sumUp(child, name ? name + "." + child[KEY] : child[KEY]);
      parents.set(child, node);
      for (const key of ["leaves", "parameters", "stored", "decoded", "elements",
                         "zeros", "odd", "squares", "changed", "unreadable"]) {
        sum[key] += below[key];
      }
      sum.moved = Math.max(sum.moved, below.moved);
    }
  }
  sums.set(node, sum);
  return sum;
};
const total = sumUp(data.tree, "");
const hasStats = allLeaves.some((leaf) => Array.isArray(leaf[STATS]));
const hasDiff = data.against !== undefined;
const rms = (node) => {
  const sum = sums.get(node);
  return sum.elements ? Math.sqrt(sum.squares / sum.elements) : null;
};

// ---- Colors: fills are light in both themes, with dark text on them.
const PALETTE = ["#9ecbff", "#ffd8a8", "#b2f2bb", "#eebefa", "#ffc9c9", "#99e9f2",
                 "#ffec99", "#d0bfff", "#c0eb75", "#fcc2d7", "#ced4da"];
const ramp = (share) => {
  const part = Math.min(1, Math.max(0, share));
  return `hsl(${215 - 190 * part} 85% ${92 - 24 * part}%)`;
};
const log10 = (x) => x > 0 ? Math.log10(x) : -Infinity;
const spread = (values) => {
  const finite = values.filter(Number.isFinite);
  return finite.length ? [Math.min(...finite.slice(0, 1e5)), Math.max(...finite.slice(0, 1e5))] : [0, 1];
};
const commonDtype = (node) => {
  if (isLeaf(node)) return node[DTYPE];
  const weights = new Map();
  const add = (below) => {
    if (isLeaf(below)) {
      weights.set(below[DTYPE], (weights.get(below[DTYPE]) || 0) + below[DECODED]);
    } else below[1].forEach(add);
  };
  add(node);
  return [...weights].sort((a, b) => b[1] - a[1])[0]?.[0] ?? -1;
};
const COLOURS = {
  dtype: {label: "dtype", fill: (node) => PALETTE[(commonDtype(node) + PALETTE.length) % PALETTE.length],
          legend: () => data.dtypes.map((name, i) => [PALETTE[i % PALETTE.length], name])},
  ratio: {label: "compression", value: (node) => {
            const sum = sums.get(node);
            return sum.decoded ? sum.stored / sum.decoded : NaN;
          }, range: () => [0, 1], text: percentText},
};
if (hasStats) {
  COLOURS.rms = {label: "root mean square", value: (node) => log10(rms(node)),
                 text: (x) => realText(10 ** x)};
  COLOURS.zeros = {label: "zeros", value: (node) => {
    const sum = sums.get(node);
    return sum.elements ? sum.zeros / sum.elements : NaN;
  }, range: () => [0, 1], text: percentText};
  COLOURS.odd = {label: "NaN and infinities", value: (node) => sums.get(node).odd > 0 ? 1 : 0,
                 range: () => [0, 1], text: (x) => x ? "some" : "none"};
}
if (hasDiff) {
  COLOURS.moved = {label: "difference", value: (node) => log10(sums.get(node).moved),
                   text: (x) => realText(10 ** x)};
}
const rangeOf = (colour) => {
  if (!colour.span) {
    colour.span = colour.range ? colour.range() : spread(allLeaves.map(colour.value));
  }
  return colour.span;
};
const fillOf = (node) => {
  const colour = COLOURS[at("colour").value];
  if (colour.fill) return colour.fill(node);
  const value = colour.value(node);
  if (!Number.isFinite(value)) return "#ced4da";
  const [low, high] = rangeOf(colour);
  return ramp(high > low ? (value - low) / (high - low) : 0);
};

// ---- The map: squarified (Bruls, Huizing and van Wijk, 2000).
const squarify = (items, x, y, width, height) => {
  const placed = [];
  let rest = items.filter((item) => item.size > 0).sort((a, b) => b.size - a.size);
  let left = rest.reduce((sum, item) => sum + item.size, 0);
  while (rest.length && width > 0 && height > 0) {
    const side = Math.min(width, height);
    const scale = width * height / left;
    let row = [], rowSize = 0, worst = Infinity;
    for (const item of rest) {
      const size = rowSize + item.size;
      const area = size * scale;
      const next = Math.max(side * side * rest[0].size * scale / area ** 2,
                            area ** 2 / (side * side * item.size * scale));
      if (row.length && next > worst) break;
      row.push(item); rowSize = size; worst = next;
    }
    const thick = rowSize * scale / side;
    let along = 0;
    for (const item of row) {
      const length = item.size * scale / thick;
      placed.push(width >= height ?
          {item, x, y: y + along, width: thick, height: length} :
          {item, x: x + along, y, width: length, height: thick});
      along += length;
    }
    if (width >= height) { x += thick; width -= thick; }
    else { y += thick; height -= thick; }
    left -= rowSize;
    rest = rest.slice(row.length);
  }
  return placed;
};

let current = data.tree;
let chosen = null;
let order = {column: 0, isDown: false, isSet: false};
let shownRows = ROWS;

const drawMap = () => {
  const map = at("map");
  map.textContent = "";
  let boxes = 0;
  const area = at("area").value;
  const place = (node, box, depth) => {
    const items = node[1].map((child) => ({child, size: sums.get(child)[area]}));
    for (const part of squarify(items, box.x, box.y, box.width, box.height)) {
      if (++boxes > BOXES_MAX || part.width < 2 || part.height < 2) continue;
      const child = part.item.child;
      const title = child[KEY];
      const element = make("div", part.width > 30 && part.height > 14 ? title : "", {
        title: `${sums.get(child).name}\n${describe(child)}`,
        onclick: (event) => { event.stopPropagation(); open(child); }});
      if (depth) element.className = "inner";
      Object.assign(element.style, {
        left: part.x + "px", top: part.y + "px", width: part.width + "px",
        height: part.height + "px", background: fillOf(child)});
      map.append(element);
      if (!isLeaf(child) && depth < 3 && part.width > 60 && part.height > 50) {
        place(child, {x: part.x + 3, y: part.y + 17, width: part.width - 6,
                      height: part.height - 20}, depth + 1);
      }
    }
  };
  if (!isLeaf(current)) {
    place(current, {x: 0, y: 0, width: map.clientWidth, height: map.clientHeight}, 0);
  }
  drawLegend();
};
const drawLegend = () => {
  const colour = COLOURS[at("colour").value];
  const legend = at("legend");
  legend.textContent = `Colour: ${colour.label}.`;
  const add = (fill, text) => {
    const box = make("i");
    box.style.background = fill;
    legend.append(box, text);
  };
  if (colour.legend) {
    colour.legend().forEach(([fill, text]) => add(fill, text));
    return;
  }
  const [low, high] = rangeOf(colour);
  add(ramp(0), colour.text(low));
  if (high > low) add(ramp(1), colour.text(high));
};

// ---- Texts of a node.
const shapeText = (node) => `${data.dtypes[node[DTYPE]] ?? data.kinds[node[KIND]]}[${node[SHAPE].join(",")}]`;
const describe = (node) => {
  const sum = sums.get(node);
  return isLeaf(node) ? `${shapeText(node)}, ${bytesText(node[DECODED])}` :
      `${sum.leaves} leaves, ${countText(sum.parameters)} parameters, ${bytesText(sum.stored)} stored`;
};

// ---- The table of a module, or of search results.
const COLUMNS = [
  {label: "name", value: (n) => n[KEY], text: null, isText: true},
  {label: "type", value: (n) => isLeaf(n) ? shapeText(n) : `${sums.get(n).leaves} leaves`, isText: true},
  {label: "parameters", value: (n) => sums.get(n).parameters, text: countText},
  {label: "stored", value: (n) => sums.get(n).stored, text: bytesText},
  {label: "decoded", value: (n) => sums.get(n).decoded, text: bytesText},
];
if (hasStats) {
  COLUMNS.push(
    {label: "rms", value: rms, text: realText},
    {label: "zeros", value: (n) => sums.get(n).elements ? sums.get(n).zeros / sums.get(n).elements : null, text: percentText},
    {label: "NaN, inf", value: (n) => sums.get(n).odd, text: (n) => n ? countText(n) : "", isBad: true});
}
if (hasDiff) {
  COLUMNS.push({label: "changed", value: (n) => sums.get(n).changed, text: (n) => n ? String(n) : ""},
               {label: "max. difference", value: (n) => sums.get(n).moved, text: (x) => x ? realText(x) : ""});
}
const found = () => {
  const wanted = at("find").value.trim().toLowerCase();
  if (!wanted) return null;
  return allLeaves.filter((leaf) => sums.get(leaf).name.toLowerCase().includes(wanted));
};
const drawTable = () => {
  const hits = found();
  const rows = [...(hits ?? (isLeaf(current) ? [current] : current[1]))];
  if (order.isSet) {
    const {value, isText} = COLUMNS[order.column];
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      const by = isText ? String(x).localeCompare(String(y), undefined, {numeric: true}) :
          (x ?? -Infinity) - (y ?? -Infinity);
      return order.isDown ? -by : by;
    });
  }
  const head = make("tr");
  COLUMNS.forEach((column, i) => {
    const cell = make("th", null, {scope: "col"});
    if (order.isSet && order.column === i) {
      cell.setAttribute("aria-sort", order.isDown ? "descending" : "ascending");
    }
    const mark = order.isSet && order.column === i ? (order.isDown ? " ▾" : " ▴") : "";
    cell.append(make("button", column.label + mark, {type: "button", onclick: () => {
      order = {column: i, isSet: true,
               isDown: order.isSet && order.column === i ? !order.isDown : !column.isText};
      drawTable();
      at("children").querySelectorAll("th button")[i].focus();
    }}));
    head.append(cell);
  });
  const table = at("children");
  table.textContent = "";
  table.append(make("caption", hits ? `${hits.length} leaves with “${at("find").value.trim()}” in their names` :
      `${sums.get(current).name || "The whole checkpoint"}: ${describe(current)}`));
  const thead = make("thead"), body = make("tbody");
  thead.append(head);
  for (const node of rows.slice(0, shownRows)) {
    const row = make("tr", null, node === chosen ? {"aria-selected": "true"} : {});
    COLUMNS.forEach((column, i) => {
      const cell = make("td");
      if (i === 0) {
        const name = hits ? sums.get(node).name : node[KEY];
        cell.append(make("button", (name || "(no name)") + (isLeaf(node) ? "" : "/"),
                         {type: "button", onclick: () => open(node)}));
      } else {
        const value = column.value(node);
        cell.textContent = column.text ? (value === null ? "" : column.text(value)) : value;
        if (column.isBad && value) cell.className = "bad";
      }
      row.append(cell);
    });
    body.append(row);
  }
  table.append(thead, body);
  const more = at("more");
  more.textContent = "";
  if (rows.length > shownRows) {
    more.append(make("button", `${rows.length - shownRows} more`, {type: "button", onclick: () => {
      shownRows += 10 * ROWS;
      drawTable();
    }}));
  }
};

const drawCrumbs = () => {
  const list = at("crumbs");
  list.textContent = "";
  const way = [];
  for (let node = current; node; node = parents.get(node)) way.unshift(node);
  way.forEach((node, i) => {
    const item = make("li");
    const button = make("button", i === 0 ? "all" : node[KEY] || "(no name)",
                        {type: "button", onclick: () => open(node)});
    if (node === current) button.setAttribute("aria-current", "location");
    item.append(button);
    list.append(item);
  });
};

// ---- One tensor.
const facts = (list, rows) => {
  for (const [name, value] of rows) {
    if (value === "" || value === null || value === undefined) continue;
    const pair = make("div");
    pair.append(make("dt", name), make("dd", value));
    list.append(pair);
  }
  return list;
};
const binsOf = (stats) => [...stats[9]].map((c, i) => ({
  bin: stats[8] + i, level: c === "0" ? 0 : (c.charCodeAt(0) - 65) / 57 * 0.97 + 0.03}));
const edgeText = (bin) => bin === 0 ? "0" : (bin < 0 ? "−" : "") + "2^" + (Math.abs(bin) - 41);
const histogram = (stats) => {
  const bins = binsOf(stats);
  const [width, height] = [330, 130];
  const step = (width - 10) / bins.length;
  const svg = draw("svg", {viewBox: `0 0 ${width} ${height + 22}`, role: "img",
    "aria-label": `Histogram from ${edgeText(bins[0].bin)} to ${edgeText(bins[bins.length - 1].bin)}`});
  bins.forEach(({bin, level}, i) => {
    const bar = draw("rect", {class: "bar", x: 5 + i * step, y: height - level * (height - 8),
                              width: Math.max(1, step - 1), height: level * (height - 8)});
    bar.append(draw("title", {}, bin === 0 ? "zeros" : `magnitude from ${edgeText(bin)}`));
    svg.append(bar);
  });
  svg.append(draw("line", {class: "axis", x1: 5, x2: width - 5, y1: height, y2: height}));
  const labels = [0, bins.length - 1];
  const zero = bins.findIndex(({bin}) => bin === 0);
  if (zero > bins.length / 5 && zero < bins.length * 0.8) labels.push(zero);
  for (const i of labels) {
    svg.append(draw("text", {x: 5 + (i + 0.5) * step, y: height + 15,
      "text-anchor": i === 0 ? "start" : i === bins.length - 1 ? "end" : "middle"},
      edgeText(bins[i].bin)));
  }
  const figure = make("figure");
  figure.append(svg, make("figcaption", "Sign and power of two, of a sample; heights are logarithms"));
  return figure;
};
const drawDetail = () => {
  const detail = at("detail");
  detail.textContent = "";
  if (!chosen) {
    detail.append(make("p", "Choose a tensor for its layout, statistics and histogram."));
    return;
  }
  const sum = sums.get(chosen);
  detail.append(make("h3", sum.name || "(no name)"));
  const stats = chosen[STATS];
  if (typeof stats === "string") detail.append(make("p", stats, {class: "bad"}));
  if (chosen[DIFF]) {
    const [what, most, share] = chosen[DIFF];
    detail.append(make("p", `Compared: ${what}` + (most ? `, at most ${realText(most)}` : "") +
        (share !== null ? `, ${percentText(share)} of the elements` : "")));
  }
  detail.append(facts(make("dl"), [
    ["type", shapeText(chosen)],
    ["kind", data.kinds[chosen[KIND]]],
    ["parameters", sum.parameters ? sum.parameters.toLocaleString("en") : ""],
    ["stored", bytesText(chosen[STORED])],
    ["decoded", bytesText(chosen[DECODED])],
    ["chunks", chosen[CHUNKS] ? `${chosen[CHUNKS]} of [${chosen[CHUNK_SHAPE].join(",")}]` : ""],
    ["codec", data.codecs[chosen[CODECS]] ?? ""],
    ...(Array.isArray(stats) ? [
      ["min", realText(stats[3])], ["max", realText(stats[4])],
      ["mean", realText(stats[5])], ["std", realText(stats[6])],
      ["l2 norm", realText(stats[7])],
      ["zeros", sum.elements ? percentText(stats[0] / sum.elements) : ""],
      ["NaN", stats[1] ? stats[1].toLocaleString("en") : ""],
      ["infinities", stats[2] ? stats[2].toLocaleString("en") : ""]] : []),
  ]));
  if (Array.isArray(stats) && stats[9]) detail.append(histogram(stats));
};

const open = (node) => {
  if (isLeaf(node)) {
    chosen = node;
    drawTable();
    drawDetail();
    return;
  }
  current = node;
  chosen = null;
  shownRows = ROWS;
  at("find").value = "";
  drawAll();
  at("children").querySelector("td button")?.focus({preventScroll: true});
};
const drawAll = () => { drawCrumbs(); drawMap(); drawTable(); drawDetail(); drawMoved(); };

// ---- The head of the page.
const badge = (text, kind) => at("badges").append(make("li", text, kind ? {class: kind} : {}));
const drawHead = () => {
  const name = data.path.split("/").filter(Boolean).pop() ?? data.path;
  at("title").textContent = document.title = "Checkpoint " + name;
  at("path").textContent = data.path;
  const verified = data.verified;
  if (!verified) badge("not verified");
  else if (verified.damages.length) badge(`${verified.damages.length} damaged`, "bad");
  else if (verified.notSupported.length) badge(`${verified.notSupported.length} not supported`, "bad");
  else badge(`verified: ${verified.checked} of ${verified.chunks} chunks by checksums`, "good");
  if (total.odd) badge(`NaN or infinities: ${countText(total.odd)}`, "bad");
  if (total.unreadable) badge(`${total.unreadable} not readable`, "bad");
  if (data.sources.length) badge(`view of ${data.sources.length} files`);
  if (hasDiff) {
    badge(total.changed || data.onlyThere.length ?
        `${total.changed + data.onlyThere.length} leaves differ from ${data.against}` :
        `the same as ${data.against}`);
  }
  facts(at("facts"), [
    ["format", data.format + (data.zarr ? `, zarr ${data.zarr}` : "") + (data.ocdbt ? ", OCDBT" : "")],
    ["step", data.step], ["committed", data.committed ? dateText(data.committed) : ""],
    ["leaves", data.leafCount.toLocaleString("en")],
    ["parameters", countText(data.parameters)],
    ["stored", bytesText(data.stored)], ["decoded", bytesText(data.decoded)],
    ["stored / decoded", data.decoded ? percentText(data.stored / data.decoded) : ""],
    ["chunks", data.chunks.toLocaleString("en")],
    ["l2 norm", hasStats ? realText(Math.sqrt(total.squares)) : ""],
    ["zeros", hasStats && total.elements ? percentText(total.zeros / total.elements) : ""],
  ]);
  const lists = [["Damage", verified?.damages ?? [], "bad"],
    ["Not supported", verified?.notSupported ?? [], "bad"], ["Notes", data.notes.concat(verified?.notes ?? []), ""],
                 ["Only in " + data.against, data.onlyThere ?? [], ""]];
  for (const [title, texts, kind] of lists) {
    if (!texts.length) continue;
    const list = make("ul", null, kind ? {class: kind} : {});
    texts.slice(0, 100).forEach((text) => list.append(make("li", text)));
    if (texts.length > 100) list.append(make("li", `and ${texts.length - 100} more`));
    at("problems").append(make("h3", title), list);
  }
  at("made").textContent = `Made by holdfast ${data.version}.`;
};

// ---- The steps of a root.
const chart = (label, points, text) => {
  const [width, height] = [300, 80];
  const [low, high] = spread(points.map(([, y]) => y));
  const x = (i) => 5 + (width - 10) * (points.length > 1 ? i / (points.length - 1) : 0.5);
  const y = (v) => height - 5 - (height - 10) * (high > low ? (v - low) / (high - low) : 0.5);
  const svg = draw("svg", {viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${label}: from ${text(points[0][1])} to ${text(points[points.length - 1][1])}`});
  svg.append(draw("polyline", {class: "line", points: points.map(([, v], i) => `${x(i)},${y(v)}`).join(" ")}));
  const figure = make("figure");
  figure.append(svg, make("figcaption", `${label}: ${text(low)} to ${text(high)}`));
  return figure;
};
const drawRun = () => {
  if (!data.steps) return;
  at("run").hidden = false;
  const metrics = [...new Set(data.steps.flatMap((step) => Object.keys(step.metrics ?? {})))];
  const charts = [["stored bytes", (s) => s.bytes, bytesText],
                  ...metrics.map((m) => [m, (s) => s.metrics?.[m], realText])];
  for (const [label, of, text] of charts) {
    const points = data.steps.map((s) => [s.name, of(s)]).filter(([, v]) => Number.isFinite(v));
    if (points.length > 1) at("run-charts").append(chart(label, points, text));
  }
  const head = make("tr");
  for (const text of ["step", "committed", "stored", ...metrics]) head.append(make("th", text, {scope: "col"}));
  const thead = make("thead"), body = make("tbody");
  thead.append(head);
  for (const step of data.steps) {
    const row = make("tr");
    row.append(make("td", step.name));
    const why = step.whyNot ?? step.damage;
    row.append(make("td", why ?? (step.committed ? dateText(step.committed) : ""), why ? {class: "bad"} : {}));
    row.append(make("td", bytesText(step.bytes)));
    for (const metric of metrics) row.append(make("td", realText(step.metrics?.[metric])));
    body.append(row);
  }
  at("run-table").append(make("caption", `${data.steps.length} steps`), thead, body);
};

// ---- What moved from step to step in the module.
const strips = new Map();
const takeStrips = (node) => {
  strips.set(node, data.moved.strips[strips.size]);
  if (!isLeaf(node)) node[1].forEach(takeStrips);
};
const movedShare = (code) => code === "0" ? 0 :
    10 ** (9 * (code.charCodeAt(0) - 65) / 57 - 8);
const movedStrip = (strip, name) => {
  const known = [...strip].map((code, i) => [code === "-" ? -1 : movedShare(code), i]);
  const [most, when] = known.reduce((a, b) => b[0] > a[0] ? b : a);
  const svg = draw("svg", {viewBox: `0 0 ${strip.length} 1`, preserveAspectRatio: "none", role: "img",
    "aria-label": most < 0 ? `${name}: not to be compared` :
        `${name}: moved most, by ${percentText(most)}, to step ${data.moved.steps[when]}`});
  known.forEach(([share, i]) => {
    if (share <= 0) return;
    const cell = draw("rect", {class: "cell", x: i, y: 0, width: 1, height: 1,
      "fill-opacity": (Math.max(0, Math.log10(share) + 8) / 9).toFixed(3)});
    cell.append(draw("title", {}, `step ${data.moved.steps[i]}: ${percentText(share)}`));
    svg.append(cell);
  });
  return [svg, most];
};
const drawMoved = () => {
  if (!data.moved || !data.moved.steps.length) return;
  at("moved").hidden = isLeaf(current);
  if (isLeaf(current)) return;
  const body = make("tbody");
  for (const node of current[1].slice(0, 50)) {
    const [svg, most] = movedStrip(strips.get(node), node[KEY]);
    const row = make("tr"), cell = make("td");
    cell.append(svg);
    row.append(make("th", node[KEY], {scope: "row"}), cell, make("td", most < 0 ? "" : percentText(most)));
    body.append(row);
  }
  const {steps} = data.moved;
  at("moved-table").replaceChildren(
      make("caption", `What moved, step by step, from before ${steps[0]} to ${steps[steps.length - 1]}; right the most`), body);
};

for (const [value, {label}] of Object.entries(COLOURS)) at("colour").append(make("option", label, {value}));
at("area").onchange = at("colour").onchange = drawMap;
at("find").oninput = () => { shownRows = ROWS; drawTable(); };
at("controls").onsubmit = (event) => event.preventDefault();
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    at("find").focus();
  } else if (event.key === "Escape" && event.target === at("find")) {
    at("find").value = "";
    drawTable();
    at("children").querySelector("td button")?.focus();
  } else if ((event.key === "Backspace" || event.key === "u") && !isTyping && parents.get(current)) {
    event.preventDefault();
    open(parents.get(current));
  }
});
let pending = 0;
addEventListener("resize", () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(drawMap); });
if (data.moved) takeStrips(data.tree);
drawHead();
drawRun();
drawAll();
})();
