// Prepares this element for typing, or sets it where nothing can be typed. Says what was done.
function (text) {
    const set = (value) => {
        const holder = this.tagName === "TEXTAREA" ? HTMLTextAreaElement : this.tagName === "SELECT" ? HTMLSelectElement : HTMLInputElement;
        Object.getOwnPropertyDescriptor(holder.prototype, "value").set.call(this, value);
        this.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
        this.dispatchEvent(new Event("change", { bubbles: true }));
    };
    if (this.disabled) return { refused: "it is disabled" };
    if (this.readOnly) return { refused: "it is read-only" };
    if (this.tagName === "SELECT") {
        const wanted = text.trim().toLowerCase();
        const options = [...this.options];
        const found = options.find(o => o.label.trim().toLowerCase() === wanted || o.value.toLowerCase() === wanted)
            || options.find(o => o.label.toLowerCase().includes(wanted));
        if (!found) return { refused: "it has no such option. Its options are: " + options.slice(0, 30).map(o => o.label).join(", ") };
        set(found.value);
        return { done: true };
    }
    if (this.tagName === "INPUT") {
        const kind = this.type;
        if (kind === "file") return { refused: "it takes files; give the path of one" };
        if (["checkbox", "radio", "button", "submit", "reset", "image"].includes(kind)) return { refused: "nothing can be typed into it; click it" };
        if (["date", "time", "datetime-local", "month", "week", "color", "range"].includes(kind)) {
            set(text);
            return this.value === "" && text !== "" ? { refused: "a " + kind + " field does not accept this; use its usual form, such as 2026-01-31 or 13:45" } : { done: true };
        }
        this.focus();
        this.select();
        return { empty: this.value === "" };
    }
    if (this.tagName === "TEXTAREA") {
        this.focus();
        this.select();
        return { empty: this.value === "" };
    }
    if (this.isContentEditable) {
        this.focus();
        const range = this.ownerDocument.createRange();
        range.selectNodeContents(this);
        const selection = this.ownerDocument.defaultView.getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
        return { empty: this.textContent === "" };
    }
    return { refused: "nothing can be typed into it" };
}
