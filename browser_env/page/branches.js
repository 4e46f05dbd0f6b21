// Narrows a pass to the branches of a page in which a text may stand. One walk over all texts and attributes collects the
// candidates, whose lines may have the text. The first of them are observed with the blocks around them; everything else
// becomes the line GAP, or MORE if it holds a candidate.

const GAP = '\u0000';
const MORE = '\u0000more';
const SPLIT = 8;  // texts, hidden ones included, that may stand between two parts of the text
const SUSPECTS = 100;

const SPOKEN = new Set('alt aria-description aria-label aria-placeholder aria-valuenow aria-valuetext label placeholder title value'.split(' '));
const FIELD = 'input, textarea, select, progress, meter, [role], [contenteditable], [aria-valuenow], [aria-valuetext]';

// The words that the outline adds to those of a page: roles, states, notes, and what is measured or coloured. Which
// elements' lines have them is asked where a text consists of such words.
const ROLE_WORDS = [...ROLES, ...STRUCTURE, ...Object.values(TAG_ROLES), ...Object.values(INPUT_ROLES)].join(' ');
const STATE_WORDS = 'checked mixed selected pressed expanded collapsed disabled readonly file required invalid current busy focused inert';
const NOTE_WORDS = 'submit reset details placeholder description value level options iframe embed marked icon';
const NOTED = 'h1, h2, h3, h4, h5, h6, input, textarea, select, details, progress, meter, [role], [placeholder], [title], [aria-describedby]';
const MEASURES = [...SHAPES, 'outline at from to px above below more options characters cut'].join(' ');
const MEASURED = 'h1, h2, h3, h4, h5, h6, select, progress, meter, [list]';

const attributesOf = getter(Element.prototype, 'attributes');
const walkerOf = method(Document.prototype, 'createTreeWalker');
const isAround = method(Node.prototype, 'contains');

const caseless = (text) => text.toUpperCase().toLowerCase().replace(/\u03c2/g, '\u03c3');
const lettersOf = (text) => caseless(text.replace(/[\s\u00ad\u200b]+/g, ''));

// `near`: visible blocks on each side of a candidate that are observed; `most`: candidates that are; `fields`: are all
// fields?
function branches({text, near, most, fields}) {
  // No words of the outline stand within the longest part of the text without punctuation of the outline's.
  const part = text.split(/["\\:=()[\],.#\u2022\u2026\u201c\u201d]+/).sort((one, other) => lettersOf(other).length - lettersOf(one).length)[0];
  const key = lettersOf(part), spaced = caseless(squeeze(part)), words = part.split(/\s+/).filter(Boolean);
  const areIn = (list) => words.every((word) => list.includes(word));
  const isColor = /^[\da-f]{1,6}$/.test(key) || areIn(Object.values(COLORS).join(' '));
  const isRole = areIn(ROLE_WORDS), isState = areIn(STATE_WORDS), isNote = areIn(NOTE_WORDS);
  const isMeasure = isColor || words.every((word) => MEASURES.includes(word.replace(/^-?\d+(?:x\d+)?$/, '')));
  const sought = new Set(), candidates = new Map(), holders = new Set();  // `holders`: all elements around candidates
  const leaves = [], places = new Map();  // texts and empty elements, and where they or what is in other nodes begins
  const trees = [];
  let suspected = 0;

  const mark = (node, marked) => {
    for (let el = node; el && !marked.has(el);) {
      if (typeOf(el) === 1) marked.add(el);
      const slot = slotOf(el), tree = parentOf(el) ? null : treeOf(el);
      if (slot) mark(slot, marked);
      el = tree ? (typeOf(tree) === 9 ? holderOf(tree) : tree.host) : parentOf(el);
    }
  };
  const hit = (node) => { if (node && places.has(node)) { candidates.set(node, places.get(node)); mark(node, holders); } };

  let open = new Map();  // what is left of the text behind its beginnings, and over how many texts it may still follow
  function read(node, data) {
    const letters = lettersOf(data);
    if (!letters && key) return;
    let isHit = letters.includes(key) && caseless(squeeze(data)).includes(spaced);
    const next = new Map();
    for (const [rest, lives] of open) {
      if (letters.startsWith(rest)) isHit = true;
      else if (rest.startsWith(letters)) next.set(rest.slice(letters.length), SPLIT);
      if (lives > 1 && !(next.get(rest) >= lives)) next.set(rest, lives - 1);
    }
    for (let size = Math.min(key.length - 1, letters.length); size > 0; size--) if (letters.endsWith(key.slice(0, size))) next.set(key.slice(size), SPLIT);
    open = next;
    if (isHit) hit(node);
  }

  // May the line of an element have the text without the page's words?
  function saysItself(el, tag) {
    if (isRole && roleOf(el).includes(key) || isNote && matchesOf(el, NOTED)) return true;
    if (isState && tag !== 'form' && lettersOf(statesOf(el, roleOf(el), [], null).join('')).includes(key)) return true;
    if (!isMeasure) return false;
    if (el.scrollHeight > el.clientHeight + 1 && el.clientHeight >= 20 || el.namespaceURI === SVG || matchesOf(el, MEASURED)) return true;
    return isBare(el) && colorName(getComputedStyle(el).backgroundColor) !== '';
  }

  function visitElement(el, generates, closing) {
    const tag = tagOf(el), inner = rootOf(el);
    for (const {name, value} of attributesOf(el)) if (SPOKEN.has(name)) read(el, value);
    if (/^(?:input|textarea|select)$/.test(tag)) read(el, valueOf(el, ''));
    if (fields && matchesOf(el, FIELD)) mark(el, sought);
    if ((attributeOf(el, 'class') || attributeOf(el, 'id')) && isBare(el)) { read(el, iconText(el)); read(el, markupWords(el)); }
    if ((isRole || isState || isNote || isMeasure) && saysItself(el, tag)) hit(el);
    if ((generates || tag === 'q') && isVisible(el)) {
      read(el, pseudoText(el, '::before'));
      const after = pseudoText(el, '::after');
      if (after) closing.push([el, after]);
    }
    if (inner) readTree(inner);
    else if (suspected < SUSPECTS && !asked.has(el) && (tag.includes('-') || HOSTS.has(tag) && !firstOf(el))) { suspected++; mark(el, sought); }
    if (!FRAMES.has(tag)) return;
    let doc = null;
    try { doc = el.contentDocument; } catch { /* another origin */ }
    if (doc) { read(el, DOC.title(doc)); readTree(doc); } else mark(el, sought);
  }

  function readTree(tree) {
    const before = plain, closing = [];
    plain = new Set();  // of this tree's styles
    trees.push(tree);
    const generates = hasGenerated(documentOf(tree) || tree);
    const walker = walkerOf(document, tree, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      while (closing.length && !isAround(closing.at(-1)[0], node)) read(...closing.pop());
      const isText = typeOf(node) === 3;
      if (SKIP.has((isText ? parentOf(node) : node)?.tagName) || isText && !/\S/.test(node.data)) continue;
      places.set(node, leaves.length);
      if (isText || !firstOf(node)) leaves.push(node);
      if (!isText) visitElement(node, generates, closing);
      else { read(node, node.data); if (isMeasure && node.data.length > 2000) hit(node); }  // its length is told
    }
    while (closing.length) read(...closing.pop());
    plain = before;
  }
  readTree(document);
  mark(topModal(document), sought);

  // What names, describes or completes another element is in that element's line.
  for (const tree of trees) {
    const all = (selector) => Array.from(typeOf(tree) === 9 ? DOC.querySelectorAll(tree, selector) : tree.querySelectorAll(selector));
    for (const label of all('label')) {
      if (holders.has(label)) hit(label.control); else if (label.control && holders.has(label.control)) hit(label);
    }
    for (const el of all('[aria-labelledby], [aria-describedby], [aria-owns]')) {
      for (const name of ['aria-labelledby', 'aria-describedby', 'aria-owns']) {
        const referred = byIdRef(el, name);
        const joined = () => lettersOf(referred.map((other) => attributeOf(other, 'aria-label') || textOf(other)).join(''));
        if (referred.some((other) => holders.has(other)) || referred.length > 1 && joined().includes(key)) hit(el);
      }
    }
    for (const el of all('input[list]')) if (el.list && (holders.has(el.list) || lettersOf(textOf(el.list)).includes(key))) hit(el);
    for (const area of all('area[href]')) if (holders.has(area)) hit(imageOf(area));
  }

  const blockOf = (node) => {
    let el = typeOf(node) === 1 ? node : parentAcross(node);
    while (el && /^(?:inline|contents)/.test(getComputedStyle(el).display) && parentAcross(el)) el = parentAcross(el);
    return el;
  };
  const isDrawn = (el) => el && isVisible(el, {visibilityProperty: true});
  function keepBeside(place, step, end) {
    let block = null;
    for (let left = near; left > 0 && (place - end) * step < 0; place += step) {
      mark(leaves[place], sought);
      const other = blockOf(leaves[place]);
      if (other !== block && isDrawn(other)) { block = other; left--; }
    }
  }
  const order = Array.from(candidates).sort((one, other) => one[1] - other[1]);
  let drawn = 0, kept = 0;
  while (kept < order.length && drawn < most) {
    const [node] = order[kept++];
    mark(node, sought);
    if (isDrawn(typeOf(node) === 1 ? node : parentAcross(node))) drawn++;
  }
  for (let i = 0; i < kept; i++) {
    keepBeside(order[i][1] - 1, -1, i ? order[i - 1][1] : -1);
    keepBeside(order[i][1], 1, i + 1 < kept ? order[i + 1][1] : leaves.length);
  }
  return {sought, holders};
}
