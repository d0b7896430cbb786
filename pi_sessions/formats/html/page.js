"use strict";
// Draws the picture of the tree, switches branches by hiding sections, searches, and listens to keys. Loops, no recursion;
// of the picture only the rows in sight exist.
(() => {
  const $ = (id) => document.getElementById(id);
  const ROW = 28, STEP = 13, LEFT = 9, DEEPEST = 16, MARGIN = 12;
  const SVG = "http://www.w3.org/2000/svg";

  const data = JSON.parse($("data").textContent);
  const entries = data.entries;
  const articles = [...document.querySelectorAll("article.entry")];
  const sections = [...document.querySelectorAll("section.chain")];
  const parents = sections.map((section) => Number(section.dataset.parent));
  const sectionOf = [], firstOf = [], childrenOf = sections.map(() => []);
  const indexOf = new Map(articles.map((article, index) => [article.id, index]));
  {
    const places = new Map(sections.map((section, place) => [section, place]));
    articles.forEach((article, index) => {
      const place = places.get(article.parentNode);
      sectionOf.push(place);
      if (firstOf[place] === undefined) firstOf[place] = index;
    });
    parents.forEach((parent, place) => { if (parent >= 0) childrenOf[parent].push(place); });
  }
  const chosen = [];            // per section: the child last shown below it
  let onPath = new Set();       // sections shown
  let order = [];               // indexes of the entries shown, top first
  let here = -1;                // the entry the person is at
  let hits = [], hitSet = null, words = [];
  let wanted = "";              // the branch just chosen by name: others may end on the same path

  const tell = (text) => {
    $("told").textContent = text;
    clearTimeout(tell.timer);
    tell.timer = setTimeout(() => { $("told").textContent = ""; }, 1800);
  };

  // --- branches -------------------------------------------------------------------------------------------------------
  const forks = [...document.querySelectorAll(".fork a")];
  const lastOf = (place) => (place + 1 < sections.length ? firstOf[place + 1] : articles.length) - 1;

  function showSection(place) {
    const path = [];
    for (let at = place; at >= 0; at = parents[at]) {
      path.push(at);
      if (parents[at] >= 0) chosen[parents[at]] = at;
    }
    for (let at = place; childrenOf[at].length;) {
      at = chosen[at] ?? (chosen[at] = childrenOf[at][0]);
      path.push(at);
    }
    const next = new Set(path);
    for (const old of onPath) if (!next.has(old)) sections[old].dataset.off = "";
    for (const fresh of next) if (!onPath.has(fresh)) delete sections[fresh].dataset.off;
    onPath = next;
    order = [];
    for (const at of [...next].sort((a, b) => a - b)) {
      for (let index = firstOf[at]; index <= lastOf(at); index++) if (entries[index][0] !== "quiet") order.push(index);
    }
    for (const link of forks) {
      if (onPath.has(Number(link.dataset.go))) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const end = articles[lastOf(Math.max(...next))];
    const named = [...$("branch").options].find((option) => {
      const index = indexOf.get(option.value);
      return index !== undefined && onPath.has(sectionOf[index]) && (articles[index] === end || option.value === wanted);
    });
    $("branch").value = named ? named.value : "";
    draw(true);
  }

  function mark(index) {
    if (here >= 0) articles[here].classList.remove("here");
    here = index;
    if (here >= 0) articles[here].classList.add("here");
    cursorTo(here);
  }

  function go(index, { focus = true } = {}) {
    const article = articles[index];
    if (!onPath.has(sectionOf[index])) showSection(sectionOf[index]);
    mark(index);
    if (focus) article.focus({ preventScroll: true });
    article.scrollIntoView({ block: "start" });
    // Entries above were never laid out; once they are, the place is known exactly.
    requestAnimationFrame(() => article.scrollIntoView({ block: "start" }));
    quietUntil = performance.now() + 300;
  }

  const address = (index) => `${location.href.split("#")[0]}#${articles[index].id}`;
  function visit(index) {
    history.pushState(null, "", `#${articles[index].id}`);
    go(index);
  }
  function follow() {
    let id = location.hash.slice(1);
    try { id = decodeURIComponent(id); } catch { /* as it is */ }
    const index = indexOf.get(id);
    if (index !== undefined) go(index);
    return index !== undefined;
  }
  function switchBranch(step) {
    const from = here >= 0 && onPath.has(sectionOf[here]) ? sectionOf[here] : Math.max(...onPath);
    const roots = parents.map((parent, place) => (parent < 0 ? place : -1)).filter((place) => place >= 0);
    for (let at = from; at >= 0; at = parents[at]) {
      const siblings = parents[at] >= 0 ? childrenOf[parents[at]] : roots;
      if (siblings.length > 1) {
        const next = siblings[(siblings.indexOf(at) + step + siblings.length) % siblings.length];
        visit(firstOf[next]);
        tell(`Branch ${siblings.indexOf(next) + 1} of ${siblings.length}`);
        return;
      }
    }
    tell("There is no other branch above");
  }
  async function copyLink(index) {
    const text = address(index);
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const box = document.createElement("textarea");
      box.value = text;
      document.body.append(box);
      box.select();
      document.execCommand("copy");
      box.remove();
    }
    tell("Link copied");
  }

  // --- the picture ----------------------------------------------------------------------------------------------------
  const tree = $("tree"), rowsBox = $("rows");
  let rows = [], rowOf = new Map(), cursor = -1;
  const closed = new Set();

  function layOut() {
    const view = data.views[$("view").value];
    rows = [];
    if (hitSet) {
      for (const index of hits) rows.push({ index, level: 0, parent: -1, guides: null, elbow: false, more: false, below: false, tool: "" });
    } else {
      const placed = new Int32Array(view.length).fill(-1);
      const guides = new Array(view.length);
      const inner = new Int32Array(view.length);
      for (const row of view) if (row[2] >= 0) inner[row[2]]++;
      view.forEach(([index, level, parent, flags, tool, many], place) => {
        const above = parent >= 0 ? view[parent] : null;
        const aboveFlags = above ? above[3] : 0;
        // Lines of ancestors that have more children further down, nearest first.
        guides[place] = above === null ? null
          : (aboveFlags & 1) && !(aboveFlags & 2) ? { column: above[1] - 1, next: guides[parent] } : guides[parent];
        if (parent >= 0 && (placed[parent] < 0 || closed.has(view[parent][0]))) return;
        placed[place] = rows.length;
        rows.push({ index, level, parent: parent >= 0 ? placed[parent] : -1, guides: guides[place], elbow: above !== null && level > above[1],
          straight: above !== null && level === above[1], more: Boolean(flags & 1) && !(flags & 2), below: inner[place] > 0 && !closed.has(index),
          inner: inner[place], tool: many ? tool : "", many: many || 0 });
      });
    }
    rowOf = new Map();
    rows.forEach((row, place) => {
      rowOf.set(row.index, place);
      for (let extra = 1; extra < row.many; extra++) rowOf.set(row.index + extra, place);
    });
    rowsBox.style.height = `${rows.length * ROW}px`;
    cursorTo(here, true);
    draw(true);
  }

  const shape = (kind, values) => {
    const made = document.createElementNS(SVG, kind);
    for (const name in values) made.setAttribute(name, values[name]);
    return made;
  };
  const x = (level) => LEFT + Math.min(level, DEEPEST) * STEP;
  const isOn = (index) => onPath.has(sectionOf[index]);

  function picture(row) {
    const svg = shape("svg", { width: x(row.level) + 7, height: ROW, "aria-hidden": "true" });
    const line = (d, on) => svg.append(shape("path", { d, class: on ? "on" : "" }));
    for (let guide = row.guides; guide; guide = guide.next) line(`M${x(guide.column)} 0V${ROW}`, false);
    const own = x(row.level), mid = ROW / 2, on = isOn(row.index);
    if (row.straight) line(`M${own} 0V${mid}`, on);
    if (row.elbow) {
      const from = x(row.level - 1);
      if (row.more) line(`M${from} 0V${ROW}`, false);
      line(`M${from} 0V${mid - 6}Q${from} ${mid} ${from + 6} ${mid}H${own}`, on);
    }
    if (row.below) line(`M${own} ${mid}V${ROW}`, on);
    svg.append(shape("circle", { cx: own, cy: mid, r: entries[row.index][5] === "leaf" ? 5 : 4 }));
    return svg;
  }
  const span = (name, text) => {
    const made = document.createElement("span");
    made.className = name;
    made.textContent = text;
    return made;
  };
  // The words around the first hit in an entry.
  function around(index) {
    const text = [...articles[index].children].slice(1).map((part) => part.textContent).join(" ").replace(/\s+/g, " ");
    const at = Math.max(0, Math.min(...words.map((word) => text.toLowerCase().indexOf(word)).filter((found) => found >= 0), text.length));
    const start = at > 30 ? at - 24 : 0;
    return `${start ? "…" : ""}${text.slice(start, start + 160)}`;
  }
  function rowElement(place) {
    const row = rows[place], [kind, who, text, label, names, end] = entries[row.index];
    const element = document.createElement("div");
    element.className = `row ${kind}${isOn(row.index) ? " on" : ""}${rowOf.get(here) === place ? " here" : ""}${place === cursor ? " at" : ""}`;
    element.id = `row-${place}`;
    element.dataset.row = place;
    element.style.top = `${place * ROW}px`;
    for (const [name, value] of [["role", "treeitem"], ["aria-level", row.level + 1], ["aria-setsize", rows.length], ["aria-posinset", place + 1],
      ["aria-selected", place === cursor]]) element.setAttribute(name, value);
    if (row.inner) element.setAttribute("aria-expanded", !closed.has(row.index));
    if (hitSet) element.append(span("unseen", isOn(row.index) ? "" : "on another branch: "));
    else element.append(picture(row));
    if (closed.has(row.index)) element.append(span("many", "⊞"));
    if (label) element.append(span("label", label));
    for (const name of names) element.append(span("branch", name));
    if (end) element.append(span("leaf", end));
    const told = span("words", "");
    const speaker = document.createElement("b");
    speaker.textContent = row.many ? row.tool : who;
    told.append(speaker, row.many ? ` (${row.many} entries)` : ` ${hitSet ? around(row.index) : text}`);
    element.append(told);
    return element;
  }
  function draw(anew) {
    if (!tree.clientHeight) return;
    const first = Math.max(0, Math.floor(tree.scrollTop / ROW) - MARGIN);
    const last = Math.min(rows.length, Math.ceil((tree.scrollTop + tree.clientHeight) / ROW) + MARGIN);
    if (!anew && draw.first === first && draw.last === last) return;
    draw.first = first;
    draw.last = last;
    const made = document.createDocumentFragment();
    for (let place = first; place < last; place++) made.append(rowElement(place));
    rowsBox.replaceChildren(made);
    if (cursor >= first && cursor < last) tree.setAttribute("aria-activedescendant", `row-${cursor}`);
    else tree.removeAttribute("aria-activedescendant");
  }
  function setCursor(place) {
    if (!rows.length) return;
    cursor = Math.max(0, Math.min(place, rows.length - 1));
    const top = cursor * ROW;
    if (top < tree.scrollTop + ROW) tree.scrollTop = Math.max(0, top - ROW * 2);
    else if (top > tree.scrollTop + tree.clientHeight - 2 * ROW) tree.scrollTop = top - tree.clientHeight + 3 * ROW;
    draw(true);
  }
  function cursorTo(index, still) {
    let at = index;
    while (at >= 0 && !rowOf.has(at) && at > firstOf[sectionOf[at]]) at--;
    const place = rowOf.get(at);
    if (place === undefined) { if (!still) draw(true); else cursor = Math.min(cursor, rows.length - 1); }
    else if (still) { cursor = place; tree.scrollTop = Math.max(0, place * ROW - tree.clientHeight / 2); }
    else setCursor(place);
  }

  // --- search ---------------------------------------------------------------------------------------------------------
  let texts = null;
  function search() {
    words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    hits = [];
    hitSet = null;
    if (words.length) {
      texts ??= articles.map((article) => article.textContent.toLowerCase());
      texts.forEach((text, index) => { if (words.every((word) => text.includes(word))) hits.push(index); });
      hitSet = new Set(hits);
    }
    const elsewhere = hits.filter((index) => !isOn(index)).length;
    $("found").textContent = !words.length ? "" : `${hits.length} found${elsewhere ? `, ${elsewhere} elsewhere` : ""}`;
    layOut();
    paint();
  }
  function paint() {
    if (!window.CSS || !CSS.highlights) return;
    CSS.highlights.delete("hits");
    if (!words.length || here < 0 || !hitSet || !hitSet.has(here)) return;
    const ranges = [];
    const walker = document.createTreeWalker(articles[here], NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0 && text.length === node.data.length; at = text.indexOf(word, at + word.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + word.length);
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("hits", new Highlight(...ranges));
  }
  function goToHit(index) {
    for (const each of articles[index].querySelectorAll(".fold")) {
      const text = each.lastChild.textContent.toLowerCase();
      if (words.some((word) => text.includes(word))) setOpen(each, true);
    }
    history.replaceState(null, "", `#${articles[index].id}`);
    go(index, { focus: false });
    paint();
    const place = hits.indexOf(index) + 1;
    $("found").textContent = `${place} of ${hits.length}`;
  }
  function nextHit(step) {
    if (!hits.length) return;
    const at = hits.indexOf(here);
    goToHit(hits[at >= 0 ? (at + step + hits.length) % hits.length : step > 0 ? 0 : hits.length - 1]);
  }

  // --- what people do -------------------------------------------------------------------------------------------------
  function setOpen(each, open) {
    each.classList.toggle("open", open);
    each.firstChild.setAttribute("aria-expanded", String(open));
  }
  function fold(button, selector) {
    const open = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(open));
    const kept = here;
    for (const each of document.querySelectorAll(selector)) setOpen(each, open);
    if (kept >= 0) articles[kept].scrollIntoView({ block: "nearest" });
  }
  const foldTools = () => fold($("tools"), ".fold.call, .fold.output");
  const foldThinking = () => fold($("thinking"), ".fold.thinking");
  function theme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }
  const page = document.querySelector(".page");
  function side(open) {
    page.classList.toggle("alone", !open);
    $("side-button").setAttribute("aria-expanded", String(open));
    if (open) { cursorTo(here, true); draw(true); }
  }
  const narrow = matchMedia("(max-width: 60rem)");
  function choose(place) {
    const row = rows[place];
    if (!row) return;
    if (narrow.matches) side(false);
    if (hitSet) goToHit(row.index);
    else visit(row.index);
  }
  function move(step, kind) {
    let at = order.indexOf(here);
    if (at < 0) at = step > 0 ? -1 : order.length;
    do at += step; while (at >= 0 && at < order.length && kind && entries[order[at]][0] !== kind);
    if (at >= 0 && at < order.length) go(order[at]);
  }

  let timer = 0;
  $("find").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 120); });
  $("find").addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(timer);
      if ($("find").value.toLowerCase().split(/\s+/).filter(Boolean).join(" ") !== words.join(" ")) search();
      nextHit(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      $("find").value = "";
      search();
      if (here >= 0) go(here); else $("talk").focus();
    }
  });
  $("before").addEventListener("click", () => nextHit(-1));
  $("after").addEventListener("click", () => nextHit(1));
  $("tools").addEventListener("click", foldTools);
  $("thinking").addEventListener("click", foldThinking);
  $("theme").addEventListener("click", theme);
  $("keys").addEventListener("click", () => $("help").showModal());
  $("help-close").addEventListener("click", () => $("help").close());
  $("side-button").addEventListener("click", () => side(page.classList.contains("alone")));
  $("view").addEventListener("change", () => { closed.clear(); layOut(); });
  $("branch").addEventListener("change", () => {
    const index = indexOf.get($("branch").value);
    if (index !== undefined) { wanted = $("branch").value; visit(index); wanted = ""; }
  });
  tree.addEventListener("scroll", () => draw(false), { passive: true });
  tree.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) { cursor = Number(row.dataset.row); choose(cursor); }
  });
  tree.addEventListener("keydown", (event) => {
    const row = rows[cursor];
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -rows.length, End: rows.length };
    if (event.key in moves) setCursor(cursor < 0 ? 0 : cursor + moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") choose(cursor);
    else if (event.key === "ArrowLeft" && row) {
      if (row.inner && !closed.has(row.index) && !hitSet) { closed.add(row.index); const at = cursor; layOut(); setCursor(at); }
      else if (row.parent >= 0) setCursor(row.parent);
    } else if (event.key === "ArrowRight" && row) {
      if (closed.delete(row.index)) { const at = cursor; layOut(); setCursor(at); }
      else setCursor(cursor + 1);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.addEventListener("click", (event) => {
    const sum = event.target.closest(".sum");
    if (sum) setOpen(sum.parentNode, !sum.parentNode.classList.contains("open"));
    const link = event.target.closest("a[href^='#e-']");
    if (!link) return;
    const index = indexOf.get(link.getAttribute("href").slice(1));
    if (index === undefined) return;
    event.preventDefault();
    visit(index);
    if (link.classList.contains("link")) copyLink(index);
  });
  document.addEventListener("focusin", (event) => {
    const article = event.target.closest && event.target.closest("article.entry");
    const index = article ? indexOf.get(article.id) : undefined;
    if (index !== undefined && index !== here) mark(index);
  });
  const keys = {
    j: () => move(1), k: () => move(-1), u: () => move(1, "user"), U: () => move(-1, "user"), "[": () => switchBranch(-1), "]": () => switchBranch(1),
    "/": () => $("find").focus(), t: foldTools, i: foldThinking, l: theme, g: () => { side(true); tree.focus(); if (cursor < 0) setCursor(0); },
    c: () => { if (here >= 0) copyLink(here); }, "?": () => $("help").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  // Where the person reads is where the picture is.
  let quietUntil = 0, waiting = false;
  addEventListener("scroll", () => {
    if (waiting || performance.now() < quietUntil) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      // Who searches or walks the tree by keyboard has the cursor; reading must not take it away.
      if (performance.now() < quietUntil || [$("find"), tree].includes(document.activeElement)) return;
      const box = $("talk").getBoundingClientRect();
      const found = document.elementFromPoint(box.left + box.width / 2, Math.min(innerHeight * 0.3, innerHeight - 2));
      const article = found && found.closest("article.entry");
      const index = article ? indexOf.get(article.id) : undefined;
      if (index !== undefined && index !== here) mark(index);
    }, 120);
  }, { passive: true });
  addEventListener("hashchange", follow);
  addEventListener("popstate", follow);
  addEventListener("resize", () => draw(true));
  narrow.addEventListener("change", () => side(!narrow.matches));

  for (const section of sections) {
    const place = Number(section.dataset.place);
    if (section.dataset.off === undefined && parents[place] >= 0) chosen[parents[place]] = place;
  }
  onPath = new Set(sections.map((section, place) => place).filter((place) => sections[place].dataset.off === undefined));
  side(!narrow.matches);
  layOut();
  if (sections.length) showSection(onPath.size ? Math.max(...onPath) : 0);
  if (sections.length && !follow()) setCursor(rowOf.get(order[0]) ?? 0);
  document.documentElement.dataset.ready = "";
})();
