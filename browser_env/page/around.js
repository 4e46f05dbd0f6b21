// The DOM around an element: its ancestors, its neighbours and what is in it, as plain data. What was typed into fields
// is not in it.

(start) => {
  const LONGEST = 200;  // characters of a text or an attribute
  const UP = 6, DOWN = 3, NEIGHBOURS = 8;

  const clip = (text) => (text.length > LONGEST ? text.slice(0, LONGEST) + '…' : text);

  function own(el) {
    const out = {tag: el.localName};
    const attributes = {};
    for (const {name, value} of el.attributes) if (name !== 'value') attributes[name] = clip(value);
    if (Object.keys(attributes).length) out.attributes = attributes;
    const box = el.getBoundingClientRect();
    out.box = [box.x, box.y, box.width, box.height].map(Math.round);
    return out;
  }

  const filled = (el) => el.localName === 'textarea' || el.isContentEditable;

  function below(el, depth) {
    const out = own(el);
    if (filled(el)) return out;
    const children = [];
    for (const child of (el.shadowRoot || el).childNodes) {
      if (children.length > 40) { children.push('…'); break; }
      if (child.nodeType === 3 && child.data.trim()) children.push(clip(child.data.trim()));
      if (child.nodeType !== 1 || child.localName === 'script' || child.localName === 'style') continue;
      if (depth > 0) children.push(below(child, depth - 1));
      else { children.push('…'); break; }
    }
    if (children.length) out.children = children;
    return out;
  }

  const el = start.nodeType === 1 ? start : start.parentElement || document.documentElement;
  if (!el) return null;
  const ancestors = [];
  for (let up = el.parentNode; up && ancestors.length < UP; up = up.parentNode || up.host) if (up.nodeType === 1) ancestors.push(own(up));
  const all = el.parentElement ? Array.from(el.parentElement.children) : [el];
  const at = all.indexOf(el);
  const near = all.slice(Math.max(0, at - NEIGHBOURS / 2), at + NEIGHBOURS / 2 + 1).filter((one) => one !== el);
  return {element: below(el, DOWN), ancestors, neighbours: near.map((one) => below(one, 1))};
}
