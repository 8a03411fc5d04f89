export const WORDS = {
  title: 'One Transformer for words and image patches',
  about: 'Open a page, change something, and see at once what the model does. All numbers come from real models on this computer.',
  begin: 'Start with a lesson',
  beginAbout: 'Nine short walks, from word vectors to windows. Or open any page:',
  local: 'Everything runs on this computer. What you type, draw or open does not leave it.',
}
