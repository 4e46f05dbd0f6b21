// What the page's style sheets add to its elements: text, and what is shown only under the pointer.

const TELLING = /[\p{L}\p{N}\p{Sc}*\u201c\u201d]/u;
const generating = new WeakMap();

// Does a style sheet of the page generate text? Asked again when there are more rules.
function hasGenerated(doc) {
  const sheets = [...DOC.styleSheets(doc), ...DOC.adoptedStyleSheets(doc)];
  let rules = 0;
  try {
    for (const sheet of sheets) rules += 1 + sheet.cssRules.length;
  } catch { return true; }  // one of another origin
  const [before, found] = generating.get(doc) || [0, false];
  if (before === rules) return found;
  const generates = sheets.some((sheet) => generatesIn(sheet.cssRules));
  generating.set(doc, [rules, generates]);
  return generates;
}
const generatesIn = (rules) => Array.from(rules).some((rule) => /::?(before|after)/.test(rule.selectorText || '') && /["(]/.test(rule.style?.content || '') ||
  rule.cssRules && generatesIn(rule.cssRules) || rule.styleSheet && generatesIn(rule.styleSheet.cssRules));

// What rules such as `tr:hover .actions {display: block}` show only under the pointer: the elements that are pointed at,
// and for each rule these and what it shows in them; null if there are none. Asked again when there are more rules.
const hovering = new WeakMap();
function hoverRules(doc) {
  const lists = [...DOC.styleSheets(doc), ...DOC.adoptedStyleSheets(doc)].map((sheet) => { try { return sheet.cssRules; } catch { return []; } });
  const count = lists.reduce((sum, rules) => sum + 1 + rules.length, 0);
  const known = hovering.get(doc);
  if (known?.count === count) return known.rules;
  const all = lists.flatMap((rules) => revealedBy(rules, '')).filter(isSelector);
  const rules = all.length ? {all, owners: all.map(([owner]) => owner).join()} : null;
  hovering.set(doc, {count, rules});
  return rules;
}
function revealedBy(rules, around) {
  const out = [];
  for (const rule of rules) {
    const selector = rule.selectorText?.replaceAll('&', `:is(${around})`) || around;
    for (const part of selector.includes(':hover') && shows(rule.style) ? selector.split(/,(?![^()]*\))/) : []) {
      const [, shown, group] = /^(.+):is\(:where\((.+)\):hover \*\)$/.exec(part) || [];
      const [, before, after, inside] = /^(.*):hover([^\s>+~]*)\s*([\s>].*)$/.exec(part.trim()) || [];
      if (group) out.push([group, shown]);
      else if (before + after && inside) out.push([before + after, ':scope ' + inside]);
    }
    if (rule.cssRules?.length) out.push(...revealedBy(rule.cssRules, selector));
    if (rule.styleSheet) try { out.push(...revealedBy(rule.styleSheet.cssRules, '')); } catch { /* of another origin */ }
  }
  return out;
}
const shows = (style) => style && (style.display && style.display !== 'none' || style.visibility === 'visible');
const nowhere = document.createDocumentFragment();
function isSelector(pair) {
  try { return pair.every((one) => nowhere.querySelector(one) === null); } catch { return false; }
}

const MOST_DEAF = 3;

// For one pass: `revealsMore(el, role)`, do more controls appear in an element under the pointer? What has a visible
// control is pointed at by that.
function reveals() {
  const known = new Map(), deaf = new Map();
  const isSeen = (el) => isVisible(el, {visibilityProperty: true});
  const isHidden = (el) => !isSeen(el) && (el.matches(OWN_CONTROLS) || el.querySelector(OWN_CONTROLS) !== null);
  // Items of one list listen alike: after a few that don't, no more are asked.
  const hears = (el) => {
    const list = parentOf(el), count = deaf.get(list) || 0;
    if (count === MOST_DEAF) return false;
    const answer = answers(el, '-hover');
    if (!answer) deaf.set(list, count + 1);
    return answer;
  };
  return (el, role) => {
    const item = role === 'row' || role === 'listitem', doc = documentOf(el);
    if (!item && role !== 'generic') return false;
    if (!known.has(doc)) known.set(doc, hoverRules(doc));
    const rules = known.get(doc);
    const isOwner = () => rules !== null && el.matches(rules.owners);
    if (!item && !isOwner()) return false;
    const first = el.querySelector(OWN_CONTROLS);
    if (first ? isSeen(first) || Array.from(el.querySelectorAll(OWN_CONTROLS)).some(isSeen) : role !== 'row') return false;
    const uncovers = ([owner, inside]) => el.matches(owner) && Array.from(el.querySelectorAll(inside)).some(isHidden);
    return first !== null && isOwner() && rules.all.some(uncovers) || role === 'row' && hears(el);
  };
}
