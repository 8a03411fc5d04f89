import{C as e,g as t,h as n,m as r}from"./common.js";var i={...r,title:`Lessons`,about:`Each step opens a view of the lab, and says what to see there and what to try.`,begin:`Start`,steps:e=>`${e} steps`,stepOf:(e,t)=>`Step ${e} of ${t}`,previous:`Previous`,next:`Next`,finish:`All lessons`,try:`Try`,again:`Show this view again`,back:`Back to this step`,close:`End the lesson`,fold:`Hide the text`,unfold:`Show the text`,bar:`Lesson`,keys:`Keys: n or Page Down for the next step, p or Page Up for the previous one.`,unknown:e=>`There is no lesson ${e}.`,unknownStep:(e,t)=>`There is no step ${e} in the lesson ${t}.`,own:`Your own lesson`,write:`Write your own lesson`,writeAbout:`A lesson is a Markdown file of this form. Save files such as 01-my-lesson.md in a folder, and start the lab with it. The address of a view is what the browser shows while you look at it.`,command:`patchword lab --lessons FOLDER`,example:`---
title: My first lesson
about: One line that says what the reader learns.
---

## Deeper costs more
view: #/cost?model=vit-exercise&depth=8

Every layer has the same number of parameters. Twice as many layers
cost *twice* as much, and \`depth\` says how many there are.

Try: move the slider Layers, and read the sum of the whole model.
`},a;function o(){return a??=e(`/api/lessons`).then(e=>e.lessons,e=>{throw a=void 0,e}),a}function s(e,r){let{page:i,query:a}=t(e.steps[r-1].view);return n(i,a,{name:e.name,step:r})}function c(e,t,n){let r=t.step+n;return r>=1&&r<=e.steps.length?r:null}export{i,o as n,c as r,s as t};