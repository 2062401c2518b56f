// Draws a numbered mark at each place, or removes all of them.
function (places) {
    const name = "hermes-marks";
    document.querySelectorAll(name).forEach(old => old.remove());
    if (!places.length) return;
    const holder = document.createElement(name);
    holder.style.cssText = "all:initial;position:absolute;left:0;top:0;margin:0;padding:0;border:0;background:none;overflow:visible;pointer-events:none;z-index:2147483647";
    const root = holder.attachShadow({ mode: "closed" });
    for (const { number, x, y, width, height } of places) {
        const frame = document.createElement("div");
        frame.style.cssText = "position:absolute;box-sizing:border-box;border:2px solid #d00;left:" + x + "px;top:" + y + "px;width:" + width + "px;height:" + height + "px";
        const label = document.createElement("div");
        label.textContent = number;
        label.style.cssText = "position:absolute;background:#d00;color:#fff;font:bold 12px/14px sans-serif;padding:0 3px;left:" + x + "px;top:" + Math.max(0, y - 14) + "px";
        root.append(frame, label);
    }
    document.documentElement.append(holder);
    try {
        holder.popover = "manual";
        holder.showPopover();
        holder.style.inset = "auto";
        holder.style.left = holder.style.top = "0";
    } catch (error) {
        // Without a top layer the marks are below open dialogs.
    }
}
