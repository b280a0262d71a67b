// Pictures: base64 blocks of the page that become blobs when they are scrolled to.

function pictureBlock(number) {
  return document.getElementById("picture-" + number);
}

function readBlob(block) {
  const bytes = atob(block.textContent.replace(/\s+/g, ""));
  const array = new Uint8Array(bytes.length);
  for (let index = 0; index < bytes.length; index += 1) array[index] = bytes.charCodeAt(index);
  return new Blob([array], { type: block.dataset.type || "image/png" });
}

const decoding = new Set();  // promises of pictures that are being decoded

// Give an image or an SVG image the picture's blob, whose URL is revoked as soon as it is loaded.
function showPicture(element, number) {
  const block = pictureBlock(number);
  if (!block) return Promise.resolve();
  const url = URL.createObjectURL(readBlob(block));
  const done = new Promise((resolve) => {
    element.addEventListener("load", resolve, { once: true });
    element.addEventListener("error", resolve, { once: true });
  }).then(() => {
    URL.revokeObjectURL(url);
    element.classList.add("loaded");
    decoding.delete(done);
  });
  decoding.add(done);
  element.setAttribute(element instanceof SVGElement ? "href" : "src", url);
  return done;
}

function makePicture(picture) {
  const block = pictureBlock(picture.picture);
  if (!block) return make("p", { class: "muted" }, "The picture is not on this page.");
  const title = picture.title || "Picture";
  const image = make("img", { alt: picture.alt || title, width: block.dataset.width,
    height: block.dataset.height });
  if (Number(block.dataset.width) < 300) image.classList.add("pixels");
  whenNear(image, () => showPicture(image, picture.picture));
  return make("figure", { class: "picture" }, image, make("figcaption", {}, title));
}

// One frame of a sprite: the window of an SVG over the picture.
function makeFrame(label) {
  return makeSvg("svg", { role: "img", "aria-label": label, class: "frame",
    preserveAspectRatio: "xMidYMid meet" });
}

function aimFrame(svg, frame) {
  const images = svg.images || (svg.images = new Map());
  const block = pictureBlock(frame.picture);
  if (!block) return;
  const size = { width: frame.w || block.dataset.width, height: frame.h || block.dataset.height };
  svg.setAttribute("viewBox", [frame.x || 0, frame.y || 0, size.width, size.height].join(" "));
  if (!images.has(frame.picture)) {
    const image = makeSvg("image", { width: block.dataset.width, height: block.dataset.height });
    images.set(frame.picture, image);
    svg.append(image);
    showPicture(image, frame.picture);
  }
  images.forEach((image, number) => {
    image.style.display = number === frame.picture ? "" : "none";
  });
}

// A slider through the frames of one title: arrow keys, play and pause.
function makeSlider(slider) {
  const frames = list(slider.frames);
  const title = slider.title || "Samples";
  const svg = makeFrame(title);
  const output = make("output", {});
  const last = frames.length - 1;
  const input = make("input", { type: "range", min: 0, max: last, step: 1, value: last,
    "aria-label": title + ": step", oninput: () => show(Number(input.value)) });
  let timer = null;
  const play = makeToggle("Play", false, (playing) => (playing ? start() : stop()),
    { "aria-label": "Play " + title });

  function show(index) {
    input.value = index;
    const text = "step " + format(frames[index].step);
    input.setAttribute("aria-valuetext", text);
    output.textContent = text;
    svg.setAttribute("aria-label", title + ", " + text);
    if (!nearby.has(svg)) aimFrame(svg, frames[index]);
  }

  function start() {
    play.textContent = "Pause";
    if (Number(input.value) === last) show(0);
    timer = setInterval(() => {
      if (Number(input.value) >= last) play.click();
      else show(Number(input.value) + 1);
    }, 400);
  }

  function stop() {
    play.textContent = "Play";
    clearInterval(timer);
  }

  const block = pictureBlock(frames[last].picture);
  const width = frames[last].w || Number(block && block.dataset.width) || 64;
  setStyle(svg, { "max-width": Math.max(width, 360) + "px" });
  if (width < 360) svg.classList.add("pixels");
  aimViewBox(svg, frames[last], block);
  whenNear(svg, () => aimFrame(svg, frames[Number(input.value)]));
  const figure = make("figure", { class: "slider" }, make("figcaption", {}, title), svg,
    frames.length > 1 ? make("div", { class: "controls" }, play, input, output) : output);
  show(last);
  figure.addStrip = () => figure.append(makeStrip(title, frames));
  return figure;
}

// The shape of the frame before its picture is there, so that nothing below it moves.
function aimViewBox(svg, frame, block) {
  if (!block) return;
  svg.setAttribute("viewBox", [frame.x || 0, frame.y || 0, frame.w || block.dataset.width,
    frame.h || block.dataset.height].join(" "));
}

const FRAMES_ON_PAPER = 12;

// What paper shows instead of the slider: up to twelve steps side by side.
function makeStrip(title, frames) {
  const count = Math.min(frames.length, FRAMES_ON_PAPER);
  const steps = Array.from({ length: count }, (_, index) =>
    frames[count === 1 ? 0 : Math.round(index * (frames.length - 1) / (count - 1))]);
  return make("div", { class: "strip" }, steps.map((frame) => {
    const label = "step " + format(frame.step);
    const svg = makeFrame(title + ", " + label);
    aimFrame(svg, frame);
    return make("figure", {}, svg, make("figcaption", {}, label));
  }));
}
