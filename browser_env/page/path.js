// The path to an element from the outermost document of its origin, through `hops` frames. Uses dom.js.
el => {
  const path = [];
  let hops = 0;
  for (let node = el;;) {
    const parent = aboveOf(node);
    if (parent) { path.push(Array.prototype.indexOf.call(childrenOf(parent), node)); node = parent; }
    else if (typeOf(node) === 11 && node.host) { path.push('shadow'); node = node.host; }
    else {
      const holder = typeOf(node) === 9 && DOC.defaultView(node)?.frameElement;
      if (!holder) return {path: path.reverse(), hops};
      path.push('frame'); hops++; node = holder;
    }
  }
}
