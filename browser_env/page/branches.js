// Narrows a pass to the branches of a page in which a text may stand. One walk over all texts and attributes collects the
// candidates, whose lines may have the text. The first of them are observed with the blocks around them, and so is what
// is in view; everything else becomes the line GAP, or MORE if it holds a candidate.

const GAP = '\u0000';
const MORE = '\u0000more';
const SPLIT = 8;  // texts, hidden ones included, that may stand between two parts of the sought text
const SUSPECTS = 100;
const LONG_PIECE = 2000;  // characters of a text that may be cut in its line, which then says how long it is

const SPOKEN = new Set('alt aria-description aria-label aria-placeholder aria-valuenow aria-valuetext label placeholder title value'.split(' '));
const FIELD = 'input, textarea, select, progress, meter, [role], [contenteditable], [aria-valuenow], [aria-valuetext]';
const REFERENCES = ['aria-labelledby', 'aria-describedby', 'aria-owns'];

const PUNCTUATION = /["\\:=()[\],.#\u2022\u2026\u201c\u201d]+/;  // of the outline

// The words that the outline adds to those of a page, and the elements whose lines may have them.
const ROLE_WORDS = [...ROLES, ...STRUCTURE, ...Object.values(TAG_ROLES), ...Object.values(INPUT_ROLES)].join(' ');
const STATE_WORDS = 'checked mixed selected pressed expanded collapsed disabled readonly file required invalid current busy focused';
const NOTE_WORDS = 'submit reset details placeholder description value level options iframe embed marked icon';
const NOTED = 'h1, h2, h3, h4, h5, h6, input, textarea, select, details, progress, meter, [role], [placeholder], [title], [aria-describedby]';
const MEASURES = [...SHAPES, ...Object.values(COLORS), 'outline at from to px above below more options characters cut scrolls box boxes'].join(' ');
const MEASURED = 'h1, h2, h3, h4, h5, h6, select, progress, meter, [list]';
const ANYWHERE = 'clipped inert';  // any element's line may have these: only the whole page tells

const attributesOf = getter(Element.prototype, 'attributes');
const walkerOf = method(Document.prototype, 'createTreeWalker');
const isAround = method(Node.prototype, 'contains');

const caseless = (text) => text.toUpperCase().toLowerCase().replace(/\u03c2/g, '\u03c3');
const lettersOf = (text) => caseless(text.replace(/[\s\u00ad\u200b]+/g, ''));
const isIn = (words, list) => words.every((word) => list.includes(word));

// Returns a function that reads the page's texts in a row: does the sought text stand in this one, or end in it?
function textReader(part) {
  const key = lettersOf(part), spaced = caseless(squeeze(part));
  let open = new Map();  // what is left of the sought text behind its beginnings, and over how many texts it may still follow
  return (data) => {
    const letters = lettersOf(data);
    if (!letters && key) return false;
    let isHit = letters.includes(key) && caseless(squeeze(data)).includes(spaced);
    const next = new Map();
    for (const [rest, lives] of open) {
      if (letters.startsWith(rest)) isHit = true;
      else if (rest.startsWith(letters)) next.set(rest.slice(letters.length), SPLIT);
      if (lives > 1 && !(next.get(rest) >= lives)) next.set(rest, lives - 1);
    }
    for (let size = Math.min(key.length - 1, letters.length); size > 0; size--) {
      if (letters.endsWith(key.slice(0, size))) next.set(key.slice(size), SPLIT);
    }
    open = next;
    return isHit;
  };
}

// Returns two functions: may the outline itself add the sought text to an element's line, or to that of a text?
function outlineWords(part) {
  const key = lettersOf(part), words = part.split(/\s+/).filter(Boolean), focused = focusedElement();
  const isRole = isIn(words, ROLE_WORDS), isState = isIn(words, STATE_WORDS), isNote = isIn(words, NOTE_WORDS);
  const isMeasure = /^[\da-f]{1,6}$/.test(key) || isIn(words.map((word) => word.replace(/^-?\d+(?:x\d+)?$/, '')), MEASURES);

  const measures = (el) => el.scrollHeight > el.clientHeight + 1 && el.clientHeight >= 20 || el.namespaceURI === SVG ||
    matchesOf(el, MEASURED) || isBare(el) && colorName(getComputedStyle(el).backgroundColor) !== '';
  const saysState = (el) => tagOf(el) !== 'form' && lettersOf(statesOf(el, roleOf(el), [], focused).join('')).includes(key);
  return {
    inElement: (el) => isRole && roleOf(el).includes(key) || isNote && matchesOf(el, NOTED) || isState && saysState(el) || isMeasure && measures(el),
    inText: (data) => isMeasure && data.length > LONG_PIECE,
  };
}

const isDrawn = (el) => el && isVisible(el, {visibilityProperty: true});
const elementOf = (node) => typeOf(node) === 1 ? node : parentAcross(node);
function blockOf(node) {
  let el = elementOf(node);
  while (el && /^(?:inline|contents)/.test(getComputedStyle(el).display) && parentAcross(el)) el = parentAcross(el);
  return el;
}

// What a pass visits, null for all: `sought`, the elements that it enters, and `holders`, all elements around candidates.
// `near`: visible blocks on each side of a candidate that are observed; `most`: candidates that are; `fields`: are all
// fields?
function branches({text, near, most, fields}) {
  // Nothing that the outline adds stands within a part of the text without punctuation of the outline's.
  const part = text.split(PUNCTUATION).sort((one, other) => lettersOf(other).length - lettersOf(one).length)[0];
  const key = lettersOf(part);
  if (key && isIn([key], ANYWHERE)) return null;
  const says = textReader(part), own = outlineWords(part);
  const sought = new Set(), candidates = new Map(), holders = new Set();
  const leaves = [], places = new Map();  // texts and empty elements, and which of them is the first in or behind a node
  const trees = [];
  let suspected = 0;

  // Adds an element and all around it, as drawn and as written.
  function mark(node, marked) {
    for (let el = node; el && !marked.has(el);) {
      if (typeOf(el) === 1) marked.add(el);
      const slot = slotOf(el), tree = parentOf(el) ? null : treeOf(el);
      if (slot) mark(slot, marked);
      el = tree ? (typeOf(tree) === 9 ? holderOf(tree) : tree.host) : parentOf(el);
    }
  }
  function hit(node) {
    if (!node || !places.has(node)) return;
    candidates.set(node, places.get(node));
    mark(node, holders);
  }
  const read = (node, data) => { if (says(data)) hit(node); };

  function readTree(tree) {
    const before = plain, doc = documentOf(tree) || tree;
    const {innerWidth, innerHeight} = DOC.defaultView(doc), {generates} = sheetFacts(doc);
    const isInView = (el) => {
      if (tagOf(el) === 'form' || isForeign(el)) return false;
      const {top, bottom, left, right} = boxOf(el);
      return top < innerHeight && bottom > 0 && left < innerWidth && right > 0;
    };
    const closing = [];  // elements that are open, with the text that their style adds at their end
    plain = new Set();  // of this tree's styles
    trees.push(tree);
    const walker = walkerOf(document, tree, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      while (closing.length && !isAround(closing.at(-1)[0], node)) read(...closing.pop());
      const isText = typeOf(node) === 3;
      if (SKIP.has((isText ? parentOf(node) : node)?.tagName) || isText && !/\S/.test(node.data)) continue;
      places.set(node, leaves.length);
      if (isText || !firstOf(node)) leaves.push(node);
      if (isText) {
        read(node, node.data);
        if (own.inText(node.data)) hit(node);
        continue;
      }
      if (isInView(node)) mark(node, sought);  // it may be covered, and says by what, wherever the blocks around it are
      readElement(node);
      if ((generates || tagOf(node) === 'q') && isVisible(node)) {
        read(node, pseudoText(node, '::before'));
        const after = pseudoText(node, '::after');
        if (after) closing.push([node, after]);
      }
      readInside(node);
    }
    while (closing.length) read(...closing.pop());
    plain = before;
  }

  function readElement(el) {
    for (const {name, value} of attributesOf(el)) if (SPOKEN.has(name)) read(el, value);
    if (/^(?:input|textarea|select)$/.test(tagOf(el))) read(el, valueOf(el, ''));
    if (tagOf(el).includes('-')) for (const said of Object.values(internalsOf(el) || {})) read(el, said);
    if (fields && matchesOf(el, FIELD)) mark(el, sought);
    if ((attributeOf(el, 'class') || attributeOf(el, 'id')) && isBare(el)) { read(el, iconText(el)); read(el, markupWords(el)); }
    if (own.inElement(el)) hit(el);
  }

  // Reads the tree of a shadow root or a frame. A tree that can't be read is observed.
  function readInside(el) {
    const tag = tagOf(el), inner = rootOf(el);
    if (inner) readTree(inner);
    else if (suspected < SUSPECTS && !asked.has(el) && (tag.includes('-') || HOSTS.has(tag) && !firstOf(el))) { suspected++; mark(el, sought); }
    if (!FRAMES.has(tag)) return;
    let doc = null;
    try { doc = el.contentDocument; } catch { /* another origin */ }
    if (doc) { read(el, DOC.title(doc)); readTree(doc); } else mark(el, sought);
  }

  // What names, describes or completes another element is in that element's line.
  function hitReferring(tree) {
    const all = (selector) => Array.from(typeOf(tree) === 9 ? DOC.querySelectorAll(tree, selector) : tree.querySelectorAll(selector));
    for (const label of all('label')) {
      const control = label.control && delegateOf(label.control) || label.control;
      if (holders.has(label)) hit(control); else if (control && holders.has(control)) hit(label);
    }
    for (const el of all(REFERENCES.map((name) => `[${name}]`).join())) {
      for (const referred of REFERENCES.map((name) => byIdRef(el, name))) {
        const joined = () => lettersOf(referred.map((other) => attributeOf(other, 'aria-label') || textOf(other)).join(''));
        if (referred.some((other) => holders.has(other)) || referred.length > 1 && joined().includes(key)) hit(el);
      }
    }
    for (const el of all('input[list]')) if (el.list && (holders.has(el.list) || lettersOf(textOf(el.list)).includes(key))) hit(el);
    for (const area of all('area[href]')) if (holders.has(area)) hit(imageOf(area));
  }

  // Marks the visible blocks before (`step` -1) or behind a place, up to another one.
  function markBeside(place, step, end) {
    let block = null;
    for (let left = near; left > 0 && (place - end) * step < 0; place += step) {
      mark(leaves[place], sought);
      const other = blockOf(leaves[place]);
      if (other !== block && isDrawn(other)) { block = other; left--; }
    }
  }

  readTree(document);
  mark(topModal(document), sought);
  trees.forEach(hitReferring);

  const order = Array.from(candidates).sort((one, other) => one[1] - other[1]);
  let kept = 0;
  for (let drawn = 0; kept < order.length && drawn < most; kept++) {
    mark(order[kept][0], sought);
    if (isDrawn(elementOf(order[kept][0]))) drawn++;
  }
  for (let i = 0; i < kept; i++) {
    markBeside(order[i][1] - 1, -1, i ? order[i - 1][1] : -1);
    markBeside(order[i][1], 1, i + 1 < kept ? order[i + 1][1] : leaves.length);
  }
  return {sought, holders};
}
