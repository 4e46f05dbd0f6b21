// Scrolls through a page's main scroll container. A script of its own, which evaluates to an object with methods. Uses dom.js.
() => {
  const root = DOC.scrollingElement(document) || DOC.documentElement(document);
  const scroller = choose();
  const isViewport = scroller === DOC.scrollingElement(documentOf(scroller));

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
    for (const el of typeOf(within) === 9 ? DOC.querySelectorAll(within, '*') : within.querySelectorAll('*')) {
      if (shadowOf(el)) found.push(...containers(shadowOf(el)));
      if (el.localName === 'iframe' || el.localName === 'frame') {
        let inner = null;
        try { inner = el.contentDocument; } catch { /* another origin */ }
        const page = inner && DOC.scrollingElement(inner);
        if (page && page.scrollHeight > el.clientHeight + 20) found.push(page);
        if (inner) found.push(...containers(inner));
      } else if (el !== root && el.scrollHeight > el.clientHeight + 20 && /auto|scroll|overlay/.test(getComputedStyle(el).overflowY)) found.push(el);
    }
    return found;
  }

  // The visible part of a container: x, y, width, height in the top frame's viewport.
  function areaOf(el) {
    const win = DOC.defaultView(documentOf(el));
    let left, top, width, height;
    if (el === DOC.scrollingElement(documentOf(el))) [left, top, width, height] = [0, 0, win.innerWidth, win.innerHeight];
    else {
      const rect = rectOf(el);
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
    const doc = documentOf(scroller);
    const box = isViewport ? {left: 0, top: 0, width: DOC.defaultView(doc).innerWidth, height: DOC.defaultView(doc).innerHeight} : rectOf(scroller);
    let most = 0;
    for (const share of [0.25, 0.5, 0.75]) {
      let el = DOC.elementFromPoint(doc, box.left + box.width * share, atTop ? box.top + 2 : box.top + box.height - 3);
      for (; el && el !== scroller; el = parentOf(el) || typeOf(treeOf(el)) === 11 && treeOf(el).host) {
        if (!/fixed|sticky/.test(getComputedStyle(el).position)) continue;
        const rect = rectOf(el);
        const size = atTop ? rect.bottom - box.top : box.top + box.height - rect.top;
        if (size < box.height * 0.4) most = Math.max(most, size);
      }
    }
    return Math.ceil(most);
  }

  const view = () => isViewport ? DOC.defaultView(documentOf(scroller)).innerHeight : scroller.clientHeight;
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
