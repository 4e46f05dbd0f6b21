// Waiting for the page to be quiet.

// Resolves when the DOM has been quiet for `frames` frames in a row, or after `bound` milliseconds.
function settle({frames, bound}) {
  if (!watcher) {
    watcher = new MutationObserver((records) => { mutations += records.length; });
    watcher.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  }
  return new Promise((resolve) => {
    let quiet = 0;
    let seen = mutations;
    const end = performance.now() + bound;
    const tick = () => {
      mutations += watcher.takeRecords().length;
      quiet = mutations === seen ? quiet + 1 : 0;
      seen = mutations;
      if (quiet >= frames || performance.now() >= end) resolve(quiet >= frames);
      else next();
    };
    // A page in the background draws no frames: a timer stands in for them.
    const next = () => {
      let called = false;
      const once = () => { if (!called) { called = true; tick(); } };
      requestAnimationFrame(once);
      setTimeout(once, 50);
    };
    next();
  });
}
