// Scrolls through a page's main scroll container. A script of its own, which evaluates to an object with methods.
() => {
  const root = document.scrollingElement || document.documentElement;
  const scroller = choose();
  const isViewport = scroller === scroller.ownerDocument.scrollingElement;

  // The document if it scrolls by half a screen or more, else the largest visible container that scrolls.
  function choose() {
    const free = getComputedStyle(root).overflowY !== 'hidden' && root.scrollHeight - innerHeight >= innerHeight / 2;
    if (free) return root;
    let best = root, most = innerWidth * innerHeight / 5;
    for (const el of containers(document)) {
      const [, , width, height] = areaOf(el);
      if (width * height > most) { best = el; most = width * height; }
    }
    return best;
  }

  function containers(within) {
    const found = [];
    for (const el of within.querySelectorAll('*')) {
      if (el.shadowRoot) found.push(...containers(el.shadowRoot));
      if (el.localName === 'iframe' || el.localName === 'frame') {
        let inner = null;
        try { inner = el.contentDocument; } catch { /* another origin */ }
        if (inner?.scrollingElement && inner.scrollingElement.scrollHeight > el.clientHeight + 20) found.push(inner.scrollingElement);
        if (inner) found.push(...containers(inner));
      } else if (el !== root && el.scrollHeight > el.clientHeight + 20 && /auto|scroll|overlay/.test(getComputedStyle(el).overflowY)) found.push(el);
    }
    return found;
  }

  // The visible part of a container: x, y, width, height in the top frame's viewport.
  function areaOf(el) {
    const win = el.ownerDocument.defaultView;
    let left, top, width, height;
    if (el === el.ownerDocument.scrollingElement) [left, top, width, height] = [0, 0, win.innerWidth, win.innerHeight];
    else {
      const rect = el.getBoundingClientRect();
      [left, top, width, height] = [rect.left + el.clientLeft, rect.top + el.clientTop, el.clientWidth, el.clientHeight];
    }
    for (let inner = win; inner !== window; inner = inner.parent) {
      const holder = inner.frameElement, rect = holder.getBoundingClientRect(), style = getComputedStyle(holder);
      left += rect.left + holder.clientLeft + parseFloat(style.paddingLeft);
      top += rect.top + holder.clientTop + parseFloat(style.paddingTop);
    }
    const right = Math.min(left + width, innerWidth), bottom = Math.min(top + height, innerHeight);
    left = Math.max(left, 0);
    top = Math.max(top, 0);
    return [left, top, Math.max(0, right - left), Math.max(0, bottom - top)];
  }

  // How much of the container's top, or bottom, is covered by content that doesn't scroll with it.
  function pinned(atTop) {
    const doc = scroller.ownerDocument;
    const box = isViewport ? {left: 0, top: 0, width: doc.defaultView.innerWidth, height: doc.defaultView.innerHeight} : scroller.getBoundingClientRect();
    let most = 0;
    for (const share of [0.25, 0.5, 0.75]) {
      let el = doc.elementFromPoint(box.left + box.width * share, atTop ? box.top + 2 : box.top + box.height - 3);
      for (; el && el !== scroller; el = el.parentElement || el.getRootNode().host) {
        if (!/fixed|sticky/.test(getComputedStyle(el).position)) continue;
        const rect = el.getBoundingClientRect();
        const size = atTop ? rect.bottom - box.top : box.top + box.height - rect.top;
        if (size < box.height * 0.4) most = Math.max(most, size);
      }
    }
    return Math.ceil(most);
  }

  const view = () => isViewport ? scroller.ownerDocument.defaultView.innerHeight : scroller.clientHeight;
  return {
    measure: () => ({offset: scroller.scrollTop, view: view(), height: scroller.scrollHeight, area: areaOf(scroller), top: pinned(true), bottom: pinned(false)}),
    to: (offset) => { scroller.scrollTo({top: offset, behavior: 'instant'}); },
    // Resolves with true as soon as there is more to scroll than `height`, with false after `bound` milliseconds.
    grows: (height, bound) => new Promise((resolve) => {
      const end = performance.now() + bound;
      const look = () => {
        if (scroller.scrollHeight > height) resolve(true);
        else if (performance.now() >= end) resolve(false);
        else setTimeout(look, 20);
      };
      look();
    }),
  };
}
