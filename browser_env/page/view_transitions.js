// Skips the page's view transitions, in its main world: during one Chromium draws no more frames where their rate has no limit.
((kinds, skip, apply) => {
  for (const {prototype} of kinds) {
    if (!prototype.startViewTransition) continue;
    prototype.startViewTransition = new Proxy(prototype.startViewTransition, {
      apply(start, self, given) {
        const transition = apply(start, self, given);
        apply(skip, transition, []);
        return transition;
      },
    });
  }
  addEventListener('pageswap', ({viewTransition}) => { if (viewTransition) apply(skip, viewTransition, []); }, true);
})([Document, Element], self.ViewTransition?.prototype.skipTransition, Reflect.apply);
