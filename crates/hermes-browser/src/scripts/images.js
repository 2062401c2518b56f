// Lists the pictures of the page.
function () {
    return [...document.images].map(i => ({ src: i.currentSrc || i.src, alt: i.alt || "", width: i.naturalWidth, height: i.naturalHeight }))
        .filter(i => i.src && !i.src.startsWith("data:")).slice(0, 200);
}
