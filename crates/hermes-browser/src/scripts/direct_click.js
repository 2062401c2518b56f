// Clicks this element without the mouse.
function () {
    if (this.tagName === "OPTION") {
        const list = this.closest("select");
        if (list) {
            if (list.multiple) this.selected = !this.selected;
            else list.value = this.value, this.selected = true;
            list.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
            list.dispatchEvent(new Event("change", { bubbles: true }));
            return;
        }
    }
    (this.click ? this : this.parentElement).click();
}
