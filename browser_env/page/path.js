// The path to an element from the outermost document of its origin, through `hops` frames.
el => {
  const path = [];
  let hops = 0;
  for (let node = el;;) {
    const parent = node.parentNode;
    if (parent) { path.push(Array.prototype.indexOf.call(parent.childNodes, node)); node = parent; }
    else if (node.host) { path.push('shadow'); node = node.host; }
    else {
      const holder = node.defaultView && node.defaultView.frameElement;
      if (!holder) return {path: path.reverse(), hops};
      path.push('frame'); hops++; node = holder;
    }
  }
}
