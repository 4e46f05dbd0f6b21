// Waiting for the page to be quiet, and looking at it then.

let watcher = null;
let mutations = 0;
const self = Math.random().toString(36);

// How often the DOM has changed so far.
function counted() {
  if (!watcher) {
    watcher = new MutationObserver((records) => { mutations += records.length; });
    watcher.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  }
  return mutations += watcher.takeRecords().length;
}

// A name for the document as it is now: another one means that it has changed, or is another document.
function edition() { return self + counted(); }

// Resolves when the DOM has been quiet for `frames` frames in a row, or after `bound` milliseconds: `quiet` says which,
// `still` whether nothing at all has changed meanwhile. With no frames to wait for, it answers at once.
function settle({frames, bound}) {
  if (!frames) return {quiet: true, still: true, waited: 0};  // where scripts are off, no frame calls back
  return new Promise((resolve) => {
    const first = counted();
    const start = performance.now();
    let quiet = 0;
    let seen = first;
    const tick = () => {
      quiet = counted() === seen ? quiet + 1 : 0;
      seen = mutations;
      const now = performance.now();
      if (quiet >= frames || now >= start + bound) resolve({quiet: quiet >= frames, still: seen === first, waited: now - start});
      else next();
    };
    // A page in the background draws no frames: a timer stands in for them.
    const next = () => {
      let called = false;
      const once = () => { if (!called) { called = true; tick(); } };
      requestAnimationFrame(once);
      setTimeout(once, 200);
    };
    next();
  });
}

// Settles and then observes, in one call.
async function look({frames, bound, what}) {
  const settled = await settle({frames, bound});
  return JSON.stringify({...settled, ...signs(), ...pass(what)});
}

// Observes at once; `still` tells whether the document is the edition that it was.
function review({seen, what}) {
  const still = edition() === seen;
  return JSON.stringify({still, quiet: still, waited: 0, ...signs(), ...pass(what)});
}
