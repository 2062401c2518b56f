// Tells what is at the middle of this element, and whether it can be clicked with the mouse.
function () {
    const tag = this.tagName;
    if (tag === "OPTION") return { way: "option" };
    const box = this.getClientRects()[0];
    if (!box || box.width === 0 || box.height === 0) return { way: "direct" };
    let x = box.left + box.width / 2, y = box.top + box.height / 2;
    let hit = this.ownerDocument.elementFromPoint(x, y);
    while (hit && hit.shadowRoot) {
        const inner = hit.shadowRoot.elementFromPoint(x, y);
        if (!inner || inner === hit) break;
        hit = inner;
    }
    for (let around = hit; around; around = around.parentNode || around.host) {
        if (around === this) return { way: "mouse" };
        if (around.tagName === "LABEL" && around.control === this) return { way: "mouse" };
    }
    if (!hit || hit.contains(this)) return { way: "mouse" };
    if (tag === "INPUT" && (this.type === "checkbox" || this.type === "radio")) return { way: "direct" };
    let name = hit.tagName.toLowerCase();
    if (hit.id) name += "#" + hit.id;
    const said = (hit.innerText || "").trim().replace(/\s+/g, " ").slice(0, 60);
    return { way: "covered", by: said ? name + " \"" + said + "\"" : name };
}
