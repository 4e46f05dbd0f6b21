// Skips the page's view transitions, in its main world: during one Chromium draws no more frames where their rate has no limit.
((kinds, skip, ready, then, apply) => {
  for (const {prototype} of kinds) {
    if (!prototype.startViewTransition) continue;
    prototype.startViewTransition = new Proxy(prototype.startViewTransition, {
      apply(start, self, given) {
        const transition = apply(start, self, given);
        apply(skip, transition, []);
        apply(then, apply(ready, transition, []), [undefined, () => {}]);  // or it's an error that nobody handles
        return transition;
      },
    });
  }
  addEventListener('pageswap', ({viewTransition}) => { if (viewTransition) apply(skip, viewTransition, []); }, true);
})([Document, Element], self.ViewTransition?.prototype.skipTransition,
  self.ViewTransition && Object.getOwnPropertyDescriptor(ViewTransition.prototype, 'ready').get,
  Promise.prototype.then, Reflect.apply);
